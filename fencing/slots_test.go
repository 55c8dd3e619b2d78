package fencing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// wired gives n1 devices of its own. Methods are named by plug and action. The isolation need not
// succeed.
func (w *world) wired(isolation, power, recovery, settings string) {
	w.configure("fence-method-template-switch",
		map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\nmust_success=no\n"})
	data := map[string]string{
		"config.properties": "node_name=n1\nisolation=" + isolation + "\npower_management=" + power +
			"\nrecovery=" + recovery + "\nnot_ready_for=10s\n" + settings,
	}
	for template, methods := range map[string]string{"switch": isolation + " " + recovery, "rack": power} {
		for method := range strings.FieldsSeq(methods) {
			if plug, action, _ := strings.Cut(method, "-"); action == "off" || action == "on" {
				data["fence-method-"+method] = fmt.Sprintf("template=fence-method-template-%s\nplug=%s\naction=%s\n",
					template, plug, action)
			}
		}
	}
	w.configure("fence-config-node-n1", data)
}

func (w *world) holds(node, reason string) {
	w.t.Helper()
	w.eventually(10*time.Minute, "the fence of "+node+" is held for "+reason, func() bool {
		f := w.fence(node)
		return f != nil && f.Status.Hold != nil && f.Status.Hold.Reason == reason
	})
}

// A fence that has switched devices waits for something that may never come: other nodes are fenced
// meanwhile, one at a time, and it goes on when that has come.
func TestFenceThatIsHeldAfterItsFirstCommandHasNoSlot(t *testing.T) {
	for name, c := range variants(map[string]struct {
		begin  func(w *world)
		reason string
		mend   func(w *world)
	}{
		"its node is Ready, and has no storage any more": {
			func(w *world) {
				w.wired("mark-unschedulable port-off", "n1-off n1-on", "port-on mark-schedulable", "power_wait=20s\n")
				wait(w.ctx, settled)
				w.setCondition("n1", "Corrupt", corev1.ConditionTrue)
			},
			"NodeReady",
			func(w *world) { w.setCondition("n1", "Corrupt", corev1.ConditionFalse) },
		},
		"no device takes its power": {
			func(w *world) {
				w.wired("mark-unschedulable port-off", "", "port-on mark-schedulable", "power_wait=20s\n")
				wait(w.ctx, settled)
				w.cutOff("n1", true)
			},
			"NoPowerDevice",
			func(w *world) { w.cutOff("n1", false) },
		},
		"the control plane needs it": {
			func(w *world) {
				w.mu.Lock()
				w.feeds, w.dead = map[string]string{"feed": "n1", "port": "n1"}, map[string]bool{}
				w.mu.Unlock()
				w.wired("mark-unschedulable", "feed-off port-off feed-on port-on", "mark-schedulable",
					"power_wait=20s\n")
				for _, node := range []string{"n1", "n2", "n3"} {
					w.patch(node, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
				}
				wait(w.ctx, settled)
				w.rack.Break("feed", fencingtest.Fault{Slow: 5 * time.Second})
				w.cutOff("n1", true)
				w.eventually(10*time.Minute, "the first command is sent",
					func() bool { return w.rack.Count("feed", "command", agent.ActionOff) == 1 })
				w.setCondition("n2", "Corrupt", corev1.ConditionTrue)
			},
			"Quorum",
			func(w *world) {
				w.setCondition("n2", "Corrupt", corev1.ConditionFalse)
				w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("port") })
				w.cutOff("n1", false)
			},
		},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 7, func(w *world) {
				breaches := w.referee()
				w.pod("db-0", "n4")
				a := w.start("a", func(config *fencing.Config) {
					config.Nodes.Triggers = []api.NodeCondition{{Type: "Corrupt", Status: corev1.ConditionTrue}}
				})
				defer a.stop()
				c.begin(w)
				w.holds("n1", c.reason)
				w.lose("n4")
				w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n4")) == 0 })
				w.ends("n4", v1alpha1.PhaseFinal)
				c.mend(w)
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.True(t, w.rack.On("port"))
				assert.Empty(t, breaches())
			})
		})
	}
}

// A fence may begin to switch devices, and then does not: it keeps no other node waiting.
func TestFenceThatMayBeginAndDoesNotHasNoSlot(t *testing.T) {
	for name, c := range variants(map[string]struct {
		portIsOn bool
		lose     func(w *world)
	}{
		"its port was off already, and its BMC dies": {false, func(w *world) {
			w.cutOff("n1", true)
			w.ends("n1", v1alpha1.PhaseIsolated)
			w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
			w.holds("n1", "NotConfigured")
		}},
		"it is paused": {true, func(w *world) {
			w.rack.Break("port", fencingtest.Fault{Slow: 20 * time.Second})
			w.cutOff("n1", true)
			w.ends("n1", v1alpha1.PhaseIsolating)
			w.annotate("n1", v1alpha1.AnnotationPaused, "true")
		}},
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				w.wired("mark-unschedulable port-off", "n1-off n1-on", "port-on mark-schedulable", "power_wait=1m\n")
				w.rack.Set("port", c.portIsOn)
				w.pod("db-0", "n2")
				a := w.start("a", func(c *fencing.Config) { c.CheckInterval = 10 * time.Second })
				defer a.stop()
				wait(w.ctx, settled)
				c.lose(w)
				w.lose("n2")
				w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
				w.untouched("n1")
			})
		})
	}
}
