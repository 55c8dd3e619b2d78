package statemachine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// dumps is a plan that heeds dumps.
func dumps(wait time.Duration) nodeplan.Plan {
	plan := bmc()
	plan.Kdump, plan.PowerWait = true, wait
	return plan
}

// dumpFor has the kernel of the machine stop, and write a dump for so long.
func (r *rig) dumpFor(d time.Duration) {
	r.dumping = true
	r.rest(d)
	r.dumping = false
}

func TestDumpReleasesPodsAndKeepsThePowerOn(t *testing.T) {
	r := newRig(t, dumps(10*time.Second))
	r.phase(v1alpha1.PhaseIsolated)
	r.dumpFor(2 * time.Minute)
	assert.Empty(t, r.plugs["bmc"].commands)
	r.phase(v1alpha1.PhaseFinal)
	golden(t, r, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s NodeIsolated: Isolated (Isolation/Done)
   40s DumpSeen: Isolated (Isolation/Done)
   40s DeletePods
   40s DumpPodsReleased: Isolated (Isolation/Done)
  3m0s PowerWaitOver: Powering (Power-Management/Running)
  3m0s OffIntent: Powering (Power-Management/Running)
  3m0s off bmc
  3m2s OffSeen: Powering (Power-Management/Running)
  3m2s AllOff: Verifying (Power-Management/Running)
  3m2s Verified: Releasing (Power-Management/Running)
  3m2s ReleaseBegun: Releasing (Power-Management/Running)
  3m2s DeletePods
  3m2s Taint
  3m2s PodsDeleted: Releasing (Power-Management/Running)
  3m2s AwaitDetach
  3m2s Untaint
  3m4s WorkloadsFreed: Restoring (Power-Management/Running)
 3m31s OnIntent: Restoring (Power-Management/Running)
 3m31s on bmc
  4m2s OnSeen: Restoring (Power-Management/Running)
  4m2s PowerRestored: Booting (Power-Management/Done)
 4m32s NodeBack: Recovering (Recovery/Running)
 4m42s mark-schedulable
 4m42s Recovered: Final (Recovery/Final)
`)
	var sources []v1alpha1.EvidenceSource
	for _, e := range r.status().Evidence {
		sources = append(sources, e.Source)
	}
	assert.Equal(t, v1alpha1.SourceKdump, sources[0])
	assert.Equal(t, v1alpha1.ReleasedDone, r.status().DumpReleased)
}

func TestMachineThatComesBackAfterItsDumpKeepsItsPower(t *testing.T) {
	r := newRig(t, dumps(5*time.Minute))
	r.phase(v1alpha1.PhaseIsolated)
	r.dumpFor(time.Minute)
	r.pass(time.Minute)
	r.back()
	r.node.BootID = "boot 2"
	r.phase(v1alpha1.PhaseFinal)
	assert.Empty(t, r.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.ReleasedDone, r.status().DumpReleased)
	assert.Empty(t, r.status().Released)
}

func TestDumpIsWaitedForOnlySoLong(t *testing.T) {
	plan := dumps(10 * time.Second)
	plan.KdumpTimeout = time.Minute
	r := newRig(t, plan)
	r.phase(v1alpha1.PhaseIsolated)
	r.dumping = true
	r.until(statemachine.OffIntent)
	assert.InDelta(t, 100, r.elapsed().Seconds(), 1, "a minute after the first message")
}

func TestDumpThatIsNotedIsWaitedForByTheNextProcess(t *testing.T) {
	r := newRig(t, dumps(10*time.Second))
	r.phase(v1alpha1.PhaseIsolated)
	r.dumping = true
	r.until(statemachine.DumpPodsReleased)
	r.dumping = false // its messages are lost from now on
	r.restart()
	began := r.elapsed()
	r.until(statemachine.OffIntent)
	assert.GreaterOrEqual(t, r.elapsed()-began, 30*time.Second)
}

func TestDumpNeedsAMessageOfJustNow(t *testing.T) {
	t.Run("not of some seconds ago", func(t *testing.T) {
		r := newRig(t, dumps(time.Minute))
		r.phase(v1alpha1.PhaseIsolated)
		r.pass(time.Second)
		r.dump = r.now
		r.pass(6 * time.Second) // the process stands still
		r.rest(30 * time.Second)
		assert.NotContains(t, r.transcript(), "DeletePods")
	})
	t.Run("nor for those that are left when it is old", func(t *testing.T) {
		r := newRig(t, dumps(time.Minute))
		r.pods = 10_000
		r.phase(v1alpha1.PhaseIsolated)
		r.pass(time.Second)
		r.dump = r.now
		r.until(statemachine.DumpSeen)
		r.dumping = true // and the machine says nothing more
		first := part(r, statemachine.DeletePods)
		r.dumping = false
		from := r.elapsed()
		for {
			step := r.decide()
			if _, ok := step.(statemachine.Wait); ok {
				break
			}
			if step, ok := step.(statemachine.Release); ok {
				require.Equal(t, first.Part, step.Part)
				r.pass(1001 * time.Millisecond)
				assert.True(t, step.Late(r.now))
				continue
			}
			r.step()
		}
		assert.LessOrEqual(t, r.elapsed()-from, 6*time.Second)
	})
	t.Run("nor from before the incident", func(t *testing.T) {
		plan := dumps(time.Minute)
		plan.NotReadyFor = time.Millisecond
		r := newRig(t, plan)
		r.pass(time.Second)
		r.dump = r.now
		r.phase(v1alpha1.PhaseIsolated)
		require.Less(t, r.now.SinceAtMost(r.dump), time.Second)
		r.rest(20 * time.Second)
		assert.NotContains(t, r.transcript(), "DeletePods")
	})
	t.Run("nor from the incident before", func(t *testing.T) {
		plan := dumps(time.Millisecond)
		plan.NotReadyFor = time.Millisecond
		r := newRig(t, plan)
		r.phase(v1alpha1.PhaseFinal)
		r.pass(time.Second)
		r.dump = r.now
		r.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
		r.node.Ready, r.node.Failing, r.renews, r.bootsAt = false, true, false, 0
		r.until(statemachine.IncidentReopened)
		require.Less(t, r.now.SinceAtMost(r.dump), time.Second)
		began := r.elapsed()
		r.until(statemachine.OffIntent)
		assert.Less(t, r.elapsed()-began, time.Second, "nor is it waited for")
	})
}

func TestDumpDoesNotReleasePods(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"that is not configured":  func(r *rig) { r.plan.Kdump = false },
		"of a node that is Ready": func(r *rig) { r.shown = func(n *statemachine.Node) { n.Ready = true } },
		"of another boot":         func(r *rig) { r.node.BootID = "another" },
		"while the policy holds": func(r *rig) {
			r.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Storm"}
		},
		"while the policy holds what has begun": func(r *rig) {
			r.policy.Continue = &policy.Decision{Verdict: policy.Hold, Reason: "OwnPartition"}
		},
		"once the machine was lost": func(r *rig) { r.node.Missing = true },
		"once it was stopped":       func(r *rig) { r.annotate(v1alpha1.AnnotationStop, "hold") },
		"while it is paused":        func(r *rig) { r.annotate(v1alpha1.AnnotationPaused, "true") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, dumps(time.Hour))
			r.phase(v1alpha1.PhaseIsolated)
			change(r)
			r.dumpFor(time.Minute)
			assert.NotContains(t, r.transcript(), "Dump")
			assert.NotContains(t, r.transcript(), "DeletePods")
			assert.Empty(t, r.status().DumpReleased)
		})
	}
}

// The first command waits for a dump that begins when the wait for the node is over.
func TestDumpThatBeginsLate(t *testing.T) {
	r := newRig(t, dumps(time.Millisecond))
	r.phase(v1alpha1.PhasePowering)
	r.dump = clock.Reading{Wall: r.now.Wall, Monotonic: r.now.Monotonic}
	r.dumpFor(time.Minute)
	assert.Contains(t, r.transcript(), "DumpPodsReleased: Powering")
	assert.Empty(t, r.plugs["bmc"].commands)
	r.phase(v1alpha1.PhaseFinal)
}

// A machine whose power was touched is not waited for.
func TestDumpAfterTheFirstCommand(t *testing.T) {
	r := newRig(t, dumps(time.Millisecond))
	r.plugs["bmc"].deaf = true
	r.until(statemachine.OffSpent)
	r.dumping = true
	began := r.elapsed()
	r.until(statemachine.OffIntent)
	assert.Less(t, r.elapsed()-began, 5*time.Second)
}
