package fencing_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// An instance of a cloud takes a while to stop, is neither on nor off meanwhile, and outlasts the
// command. It costs what the instance takes and little more, however long that is, and it gets one
// command.
func TestInstanceThatTakesLongToStop(t *testing.T) {
	for _, takes := range []time.Duration{25 * time.Second, 45 * time.Second, 90 * time.Second, 5 * time.Minute} {
		t.Run(takes.String(), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.configure("fence-config-node-n1", map[string]string{
					// With default times.
					"config.properties": "node_name=n1\nisolation=mark-unschedulable\npower_management=off " +
						"on\nrecovery=mark-schedulable\n",
					"fence-method-off": "template=fence-method-template-rack\nplug=n1\naction=off\n",
					"fence-method-on":  "template=fence-method-template-rack\nplug=n1\naction=on\n",
				})
				w.pod("db-0", "n1")
				a := w.start("a", func(*fencing.Config) {})
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.rack.Break("n1", fencingtest.Fault{Takes: takes})
				w.eventually(bound, "it gets its command",
					func() bool { return w.rack.Count("n1", "command", agent.ActionOff) == 1 })
				took := w.eventually(20*time.Minute, "the pod is released",
					func() bool { return len(w.pods("n1")) == 0 })
				t.Logf("stopped after %v: released after %v", takes, took)
				assert.LessOrEqual(t, took, takes+12*time.Second)
				w.cutOff("n1", false)
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.Empty(t, breaches())
				assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff))
				assert.True(t, w.rack.On("n1"))
			})
		})
	}
}

// A device that hangs is given up after the timeout of its own template.
func TestTimeoutOfADevice(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.twoLevels()
		w.configure("fence-method-template-bmc",
			map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\ncommand_timeout=2s\n"})
		for _, action := range []string{"off", "on"} {
			w.change("fence-config-node-n1", "fence-method-bmc-"+action,
				"template=fence-method-template-bmc\nplug=n1\naction="+action+"\n")
		}
		var mu sync.Mutex
		read := map[string]time.Duration{}
		w.pod("db-0", "n1")
		a := w.start("a", func(c *fencing.Config) {
			c.Hooks.OnReading = func(_, device string, _ agent.Power, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				read[device] = max(read[device], took)
			}
		})
		defer a.stop()
		wait(w.ctx, settled)
		w.rack.Break("n1", fencingtest.Fault{Slow: time.Hour})
		w.cutOff("n1", true)
		w.eventually(bound, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, 2*time.Second, read["fence_rack/rack/n1"])
	})
}
