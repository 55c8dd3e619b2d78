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
func (c *cluster) dumpFor(d time.Duration) {
	c.dumping = true
	c.rest(d)
	c.dumping = false
}

func TestDumpReleasesPodsAndKeepsThePowerOn(t *testing.T) {
	c := newCluster(t, dumps(10*time.Second))
	c.phase(v1alpha1.PhaseIsolated)
	c.dumpFor(2 * time.Minute)
	assert.Empty(t, c.plugs["bmc"].commands)
	c.phase(v1alpha1.PhaseFinal)
	golden(t, c, `
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
	for _, e := range c.status().Evidence {
		sources = append(sources, e.Source)
	}
	assert.Equal(t, v1alpha1.SourceKdump, sources[0])
	assert.Equal(t, v1alpha1.ReleasedDone, c.status().DumpReleased)
}

func TestMachineThatComesBackAfterItsDumpKeepsItsPower(t *testing.T) {
	c := newCluster(t, dumps(5*time.Minute))
	c.phase(v1alpha1.PhaseIsolated)
	c.dumpFor(time.Minute)
	c.pass(time.Minute)
	c.back()
	c.node.BootID = "boot 2"
	c.phase(v1alpha1.PhaseFinal)
	assert.Empty(t, c.plugs["bmc"].commands)
	assert.Equal(t, v1alpha1.ReleasedDone, c.status().DumpReleased)
	assert.Empty(t, c.status().Released)
}

func TestDumpIsWaitedForOnlySoLong(t *testing.T) {
	plan := dumps(10 * time.Second)
	plan.KdumpTimeout = time.Minute
	c := newCluster(t, plan)
	c.phase(v1alpha1.PhaseIsolated)
	c.dumping = true
	c.until(statemachine.OffIntent)
	assert.InDelta(t, 100, c.elapsed().Seconds(), 1, "a minute after the first message")
}

func TestDumpThatIsNotedIsWaitedForByTheNextProcess(t *testing.T) {
	c := newCluster(t, dumps(10*time.Second))
	c.phase(v1alpha1.PhaseIsolated)
	c.dumping = true
	c.until(statemachine.DumpPodsReleased)
	c.dumping = false // its messages are lost from now on
	c.restart()
	began := c.elapsed()
	c.until(statemachine.OffIntent)
	assert.GreaterOrEqual(t, c.elapsed()-began, 30*time.Second)
}

func TestDumpNeedsAMessageOfJustNow(t *testing.T) {
	t.Run("not of some seconds ago", func(t *testing.T) {
		c := newCluster(t, dumps(time.Minute))
		c.phase(v1alpha1.PhaseIsolated)
		c.pass(time.Second)
		c.dump = c.now
		c.pass(6 * time.Second) // the process stands still
		c.rest(30 * time.Second)
		assert.NotContains(t, c.transcript(), "DeletePods")
	})
	t.Run("nor for those that are left when it is old", func(t *testing.T) {
		c := newCluster(t, dumps(time.Minute))
		c.pods = 10_000
		c.phase(v1alpha1.PhaseIsolated)
		c.pass(time.Second)
		c.dump = c.now
		c.until(statemachine.DumpSeen)
		c.dumping = true // and the machine says nothing more
		first := part(c, statemachine.DeletePods)
		c.dumping = false
		from := c.elapsed()
		for {
			step := c.decide()
			if _, ok := step.(statemachine.Wait); ok {
				break
			}
			if step, ok := step.(statemachine.Release); ok {
				require.Equal(t, first.Part, step.Part)
				c.pass(1001 * time.Millisecond)
				assert.True(t, step.Late(c.now))
				continue
			}
			c.step()
		}
		assert.LessOrEqual(t, c.elapsed()-from, 6*time.Second)
	})
	t.Run("nor from before the incident", func(t *testing.T) {
		plan := dumps(time.Minute)
		plan.NotReadyFor = time.Millisecond
		c := newCluster(t, plan)
		c.pass(time.Second)
		c.dump = c.now
		c.phase(v1alpha1.PhaseIsolated)
		require.Less(t, c.now.SinceAtMost(c.dump), time.Second)
		c.rest(20 * time.Second)
		assert.NotContains(t, c.transcript(), "DeletePods")
	})
	t.Run("nor from the incident before", func(t *testing.T) {
		plan := dumps(time.Millisecond)
		plan.NotReadyFor = time.Millisecond
		c := newCluster(t, plan)
		c.phase(v1alpha1.PhaseFinal)
		c.pass(time.Second)
		c.dump = c.now
		c.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
		c.node.Ready, c.node.Failing, c.renews, c.bootsAt = false, true, false, 0
		c.until(statemachine.IncidentReopened)
		require.Less(t, c.now.SinceAtMost(c.dump), time.Second)
		began := c.elapsed()
		c.until(statemachine.OffIntent)
		assert.Less(t, c.elapsed()-began, time.Second, "nor is it waited for")
	})
}

func TestDumpDoesNotReleasePods(t *testing.T) {
	for name, change := range map[string]func(c *cluster){
		"that is not configured":  func(c *cluster) { c.plan.Kdump = false },
		"of a node that is Ready": func(c *cluster) { c.shown = func(n *statemachine.Node) { n.Ready = true } },
		"of another boot":         func(c *cluster) { c.node.BootID = "another" },
		"while the policy holds": func(c *cluster) {
			c.policy.Admit = &policy.Decision{Verdict: policy.Hold, Reason: "Storm"}
		},
		"while the policy holds what has begun": func(c *cluster) {
			c.policy.Continue = &policy.Decision{Verdict: policy.Hold, Reason: "OwnPartition"}
		},
		"once the machine was lost": func(c *cluster) { c.node.Missing = true },
		"once it was stopped":       func(c *cluster) { c.annotate(v1alpha1.AnnotationStop, "hold") },
		"while it is paused":        func(c *cluster) { c.annotate(v1alpha1.AnnotationPaused, "true") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, dumps(time.Hour))
			c.phase(v1alpha1.PhaseIsolated)
			change(c)
			c.dumpFor(time.Minute)
			assert.NotContains(t, c.transcript(), "Dump")
			assert.NotContains(t, c.transcript(), "DeletePods")
			assert.Empty(t, c.status().DumpReleased)
		})
	}
}

// The first command waits for a dump that begins when the wait for the node is over.
func TestDumpThatBeginsLate(t *testing.T) {
	c := newCluster(t, dumps(time.Millisecond))
	c.phase(v1alpha1.PhasePowering)
	c.dump = clock.Reading{Wall: c.now.Wall, Monotonic: c.now.Monotonic}
	c.dumpFor(time.Minute)
	assert.Contains(t, c.transcript(), "DumpPodsReleased: Powering")
	assert.Empty(t, c.plugs["bmc"].commands)
	c.phase(v1alpha1.PhaseFinal)
}

// A machine whose power was touched is not waited for.
func TestDumpAfterTheFirstCommand(t *testing.T) {
	c := newCluster(t, dumps(time.Millisecond))
	c.plugs["bmc"].deaf = true
	c.until(statemachine.OffSpent)
	c.dumping = true
	began := c.elapsed()
	c.until(statemachine.OffIntent)
	assert.Less(t, c.elapsed()-began, 5*time.Second)
}
