//go:build !race

package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// A controller dies at each of its effects in turn, just before or just after it, while a dump is
// written, and another one goes on.
func TestSimulatedDeathsInADump(t *testing.T) {
	proof.Simulation(t)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			d := &death{after: after, left: n}
			t.Run(fmt.Sprintf("%d/after=%v", n, after), func(t *testing.T) {
				inWorld(t, 3, func(w *world) {
					e := newEars()
					w.set(kdump)
					breaches := w.referee()
					w.pod("db-0", "n1")
					first := w.doom("first", d, e.heed)
					wait(w.ctx, time.Minute)
					w.crash("n1", e, 3*time.Minute)
					for range 1200 {
						if d.isDead() || w.phase("n1") == v1alpha1.PhaseFinal {
							break
						}
						wait(w.ctx, poll)
					}
					first.client.Sever()
					first.kill()
					second := w.start("second", e.heed)
					defer second.stop()
					w.eventually(20*time.Minute, "the fence ends",
						func() bool { return w.phase("n1") == v1alpha1.PhaseFinal })
					t.Logf("died at %q", d.what)
					assert.LessOrEqual(t, w.rack.Count("n1", "power", agent.ActionOff), 1, "%v", w.rack.Events())
					assert.True(t, w.rack.On("n1"))
					assert.Empty(t, w.pods("n1"))
					assert.Empty(t, w.node("n1").Spec.Taints)
					assert.Empty(t, breaches())
				})
			})
			if !d.isDead() {
				break
			}
		}
	}
}
