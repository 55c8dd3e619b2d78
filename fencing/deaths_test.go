//go:build !race

package fencing_test

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

var firstDeath = flag.Uint64("death", 0, "seed of the first of TestSimulatedDeathsOfNodes: a test that fails has it "+
	"in its name")

// deaths are seeds: of 40 deaths, or while soaking of as many as there is time for, and of 1,000 at
// least.
func deaths(t *testing.T) iter.Seq[uint64] {
	t.Helper()
	soak, err := time.ParseDuration(cmp.Or(os.Getenv(proof.SoakVariable), "0s"))
	require.NoError(t, err)
	first, least, until := *firstDeath, 40, time.Now().Add(soak)
	if soak > 0 {
		first, least = cmp.Or(first, rand.Uint64()>>1), 1000
	}
	return func(yield func(uint64) bool) {
		for n := 0; n < least || time.Now().Before(until); n++ {
			if !yield(first + uint64(n)) {
				return
			}
		}
	}
}

// A node with a BMC and two power supplies dies at a random moment, with default settings, in one
// of many ways, and perhaps with the leader on it. Its pods are released within the bound, and
// never while it runs.
func TestSimulatedDeathsOfNodes(t *testing.T) {
	proof.Simulation(t)
	ways := []struct {
		name   string
		before func(w *world) // long before
		then   func(w *world)
	}{
		{"the BMC works", nil, nil},
		{"the BMC dies with it", nil, func(w *world) { w.rack.Break("n1", fencingtest.Fault{Unreadable: true}) }},
		{
			"the BMC has been dead for long", func(w *world) {
				w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
			},
			nil,
		},
		{"the BMC is stuck", func(w *world) { w.rack.Break("n1", fencingtest.Fault{Ignore: true}) }, nil},
		{"the BMC is another machine's, which is off", func(w *world) { w.unwire("n1"); w.rack.Set("n1", false) }, nil},
		{"the BMC has switched it off", nil, func(w *world) { w.rack.Set("n1", false) }},
		{"it is without power, and so is the BMC", nil, func(w *world) {
			w.rack.Set("feed", false)
			w.rack.Set("port", false)
			w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
		}},
		{"a power supply is slow to answer", func(w *world) {
			w.rack.Break("feed", fencingtest.Fault{Slow: 5 * time.Second})
		}, func(w *world) { w.rack.Break("n1", fencingtest.Fault{Unreadable: true}) }},
	}
	var longest time.Duration
	died := 0
	for seed := range deaths(t) {
		died++
		random := rand.New(rand.NewPCG(21, seed))
		way, leads := ways[seed%uint64(len(ways))], random.IntN(2) == 0
		t.Run(fmt.Sprintf("%d/%s/leads=%v", seed, way.name, leads), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.twoLevels()
				w.pod("db-0", "n1")
				on := func(node string) func(*fencing.Config) {
					return func(c *fencing.Config) {
						c.OutsideCluster, c.Node, c.Limits = false, node, api.Limits{}
					}
				}
				leader := "n2"
				if leads {
					leader = "n1"
				}
				a := w.start("a", on(leader))
				wait(w.ctx, settled)
				if way.before != nil {
					way.before(w)
				}
				wait(w.ctx, 7*time.Minute+time.Duration(random.Int64N(int64(6*time.Minute))))
				within := bound
				w.cutOff("n1", true)
				if way.then != nil {
					way.then(w)
				}
				if leads {
					a.client.Sever()
					a.kill()
					wait(w.ctx, 20*time.Second) // until its lease has expired
					a = w.start("b", on("n3"))
					within += time.Minute // in which the new one watches
				}
				took := w.eventually(within, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
				longest = max(longest, took)
				assert.Empty(t, breaches())
				a.kill()
			})
		})
		require.False(t, t.Failed())
	}
	summary := fmt.Sprintf("%d deaths, all released, after %v at most", died, longest.Round(time.Second))
	if proof.Soaking() {
		fmt.Printf("soak: %s: %s\n", t.Name(), summary) // a log would be shown only on failure
	}
	t.Log(summary)
}
