//go:build !race

package fencing_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// Each setting that does not decide which plug is switched, and how, changes in each phase of a fence. The leader
// goes on, and so does the next one.
func TestSimulatedSettingsThatChangeInAnyPhase(t *testing.T) {
	proof.Simulation(t)
	const object = "fence-config-type-worker"
	change := map[string]func(w *world){}
	for _, line := range []string{
		"power_on=manual", "kdump_timeout=1m", "retries=2", "restarts=2",
	} {
		change[line] = func(w *world) { w.change(object, "config.properties", settings+line+"\n") }
	}
	for _, line := range []string{
		"settle=40s", "command_timeout=3s", "off_is_proof=yes", "device=rack", "name=The rack", "must_success=yes",
	} {
		change[line] = func(w *world) { w.template("agent_name=fence_rack\nip=rack\n" + line + "\n") }
	}
	for _, old := range [][2]string{
		{"not_ready_for=10s", "not_ready_for=15s"},
		{"power_wait=20s", "power_wait=1s"},
		{"boot_grace=5m", "boot_grace=9m"},
		{"isolation=mark-unschedulable", "isolation=mark-unschedulable cordon"},
		{"recovery=mark-schedulable", "recovery=mark-schedulable uncordon"},
		{"power_management=plug-off plug-on", "power_management=plug-off clean-pods plug-on"},
	} {
		changed := strings.Replace(settings, old[0], old[1], 1)
		change[old[1]] = func(w *world) { w.change(object, "config.properties", changed) }
	}
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated, v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring, v1alpha1.PhaseBooting,
		v1alpha1.PhaseRecovering,
	} {
		for what, change := range change {
			for leader, other := range map[string]bool{"the same leader": false, "the next leader": true} {
				t.Run(string(phase)+"/"+what+"/"+leader, func(t *testing.T) {
					inWorld(t, 3, func(w *world) {
						breaches := w.referee()
						w.pod("db-0", "n1")
						a := w.start("a", nil)
						defer func() { a.stop() }()
						wait(w.ctx, settled)
						entered := w.enters("n1", phase)
						if phase == v1alpha1.PhaseBooting || phase == v1alpha1.PhaseRecovering {
							w.lose("n1")
						} else {
							w.cutOff("n1", true)
						}
						<-entered
						if other {
							a.kill()
						}
						change(w)
						if other {
							a = w.start("b", nil)
						}
						w.eventually(time.Hour, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
						w.cutOff("n1", false)
						w.eventually(time.Hour, "the fence has ended", func() bool { return w.phase("n1").Ended() })
						if hold := w.fence("n1").Status.Hold; hold != nil {
							assert.NotContains(t, []string{"ConfigurationChanged", "NotConfigured"}, hold.Reason)
						}
						assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff), "%v", w.rack.Events())
						assert.Empty(t, breaches())
					})
				})
			}
		}
	}
}

// enters is closed when the fence of a node enters a phase.
func (w *world) enters(node string, phase v1alpha1.Phase) <-chan struct{} {
	entered := make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	w.mu.Lock()
	defer w.mu.Unlock()
	judge := w.judge
	w.judge = func(c apisim.Change) {
		judge(c)
		if c.After == nil || c.After.GetKind() != "NodeFence" || c.After.GetName() != v1alpha1.Name(node) {
			return
		}
		if now, _, _ := unstructured.NestedString(c.After.Content(), "status", "phase"); now == string(phase) {
			enter()
		}
	}
	return entered
}
