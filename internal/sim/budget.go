package sim

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// Budget is how many schedules to run and from which seed.
type Budget struct {
	seed uint64
	more func(done int) bool
}

// First is a budget of the first n schedules.
func First(n int) Budget { return Budget{more: func(done int) bool { return done < n }} }

// Schedules is a budget of the first n schedules, or of a tenth of them with the race detector,
// which makes them ten times as slow. While soaking it is as many new ones as time allows. The test
// is skipped unless simulations are asked for (see package proof).
func Schedules(t *testing.T, n int) Budget {
	t.Helper()
	proof.Simulation(t)
	if !proof.Soaking() {
		return First(n / slowness)
	}
	soak := os.Getenv(proof.SoakVariable)
	d, err := time.ParseDuration(soak)
	if err != nil {
		t.Fatalf("%s: want a duration such as 10m (got %q)", proof.SoakVariable, soak)
	}
	end := time.Now().Add(d)
	return Budget{seed: rand.Uint64(), more: func(int) bool { return time.Now().Before(end) }}
}
