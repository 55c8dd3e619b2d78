package endpoints_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// It counts the requests of a steady state, and those that the death of one of ten instances costs.
// BENCHMARKS.md has the figures.
func TestSimulatedCostsOfInstances(t *testing.T) {
	proof.Simulation(t)
	inBoth(t, func(c *cluster) {
		begun := 0
		for _, e := range []struct{ n, rounds int }{{3, 5}, {10, 5}, {100, 1}} {
			n := e.n
			for ; begun < n; begun++ {
				newInstance(c, fmt.Sprintf("10.0.0.%d", begun+1), nil).start(c)
			}
			time.Sleep(interval / 2) // the first rounds are over
			all, writes, _ := c.served(time.Duration(e.rounds) * interval)
			rounds := float64(e.rounds * n)
			assert.InDelta(c, rounds, writes, 0.1*rounds+2,
				"a heartbeat for each instance and interval, and nothing else")
			c.Logf("%d instances: each sends %.1f requests in an interval, %.2f of them writes", n, float64(all)/rounds,
				float64(writes)/rounds)
			if n == 10 {
				written := c.written()
				_ = newInstance(c, "10.0.1.1", nil).start(c).die()
				_, _, refused := c.served(expiry + 4*interval)
				c.Logf("a death among 10: %d write to the slices, %d writes refused, because others were faster",
					written()["endpointslices"]-1, refused)
				assert.Len(c, c.published(), n)
				assert.Equal(c, 2, written()["endpointslices"], "it comes, and it goes")
			}
		}
	})
}

// served returns how many requests the instances send in a time, how many writes are carried out,
// and how many are refused.
func (c *cluster) served(long time.Duration) (all, writes, refused int) {
	c.Helper()
	before := len(c.server.Trace())
	time.Sleep(long)
	for _, s := range c.server.Trace()[before:] {
		if s.Client == "admin" {
			continue
		}
		all++
		switch {
		case s.Method == http.MethodGet:
		case s.Code < 300:
			writes++
		default:
			refused++
		}
	}
	return all, writes, refused
}
