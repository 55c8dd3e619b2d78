package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// An admin suspends a virtual machine. Its agent reads off, and an hour later the machine goes on with its pods.
func TestSuspendedMachineKeepsItsPods(t *testing.T) {
	for name, leader := range map[string]func(w *world, a *replica) *replica{
		"the same leader": func(_ *world, a *replica) *replica { return a },
		"the next leader": func(w *world, a *replica) *replica { a.stop(); return w.start("b", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.template("agent_name=fence_rack\nip=rack\noff_is_proof=no\n")
				w.pod("db-0", "n1")
				a := w.start("a", nil)
				defer func() { a.stop() }()
				wait(w.ctx, settled)

				w.cutOff("n1", true) // it is suspended
				w.unwire("n1")
				w.rack.Set("n1", false)
				a = leader(w, a)
				w.eventually(20*time.Minute, "the fence waits for an admin", func() bool {
					f := w.fence("n1")
					return f != nil && f.Status.Hold != nil && f.Status.Hold.Reason == "OffUnclear"
				})
				wait(w.ctx, time.Hour)
				assert.Equal(t, []string{"db-0"}, w.pods("n1"))
				assert.Zero(t, w.rack.Count("n1", "command", agent.ActionOff))

				w.rack.Set("n1", true) // it goes on
				w.cutOff("n1", false)
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.Equal(t, []string{"db-0"}, w.pods("n1"))
				assert.Empty(t, breaches())
			})
		})
	}
}

func TestMachineThatIsSwitchedOffByAnAmbiguousDeviceIsReleased(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.template("agent_name=fence_rack\nip=rack\noff_is_proof=no\n")
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.lose("n1")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.requireFencedOnce("n1")
		require.Empty(t, w.pods("n1"))
		assert.Empty(t, breaches())
	})
}
