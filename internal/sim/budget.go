package sim

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// SoakVariable names an environment variable with a duration. For that long [Explore] goes on with
// new schedules.
const SoakVariable = "BELLWETHER_SOAK"

// Budget is how many schedules to run, and from which seed on.
type Budget struct {
	seed uint64
	more func(done int) bool
}

// First is a budget of the first n schedules.
func First(n int) Budget { return Budget{more: func(done int) bool { return done < n }} }

// Schedules is a budget of the first n schedules, or of a tenth of them with the race detector,
// which makes them ten times as slow; and while soaking, of all that time allows.
func Schedules(t *testing.T, n int) Budget {
	t.Helper()
	soak := os.Getenv(SoakVariable)
	if soak == "" {
		return First(n / slowness)
	}
	d, err := time.ParseDuration(soak)
	if err != nil {
		t.Fatalf("%s: want a duration such as 10m (got %q)", SoakVariable, soak)
	}
	end := time.Now().Add(d)
	return Budget{seed: rand.Uint64(), more: func(int) bool { return time.Now().Before(end) }}
}
