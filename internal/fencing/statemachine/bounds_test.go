package statemachine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// The API server refuses a record with longer lists, and a fence that cannot write its record
// stands still: the cluster judges each write.

func TestRecordOfTheLargestPlanStaysWithinItsBounds(t *testing.T) {
	plan := planOf(nil)
	for i := range statemachine.MaxDevices {
		plan.PowerManagement[0] = append(plan.PowerManagement[0], feed(fmt.Sprint(i)))
	}
	c := newCluster(t, plan)
	last := c.plugs[fmt.Sprint(statemachine.MaxDevices-1)]
	last.silent = true
	for last.commands == nil {
		c.step()
	}
	c.annotate(v1alpha1.AnnotationConfirmOff, "1")
	c.until(statemachine.ReleaseBegun)
	last.silent = false
	c.phase(v1alpha1.PhaseFinal)
	assert.Len(t, c.status().Evidence, 2*statemachine.MaxDevices+1, "off, on, and the word of an admin")
	assert.Len(t, c.status().Devices, statemachine.MaxDevices)
}

func TestRecordOfManyTriesStaysWithinItsBounds(t *testing.T) {
	plan := bmc()
	plan.Retries = 100
	c := newCluster(t, plan)
	c.plugs["bmc"].deaf = true
	c.until(statemachine.PowerFailed)
	assert.Len(t, c.plugs["bmc"].commands, 100)
	assert.Len(t, c.status().Jobs, 64)
	assert.Equal(t, "fence-c0ffee0012-1-100", c.status().Jobs[63])
}

func TestRecordOfManyIncidentsStaysWithinItsBounds(t *testing.T) {
	c := newCluster(t, bmc())
	for i := range 20 {
		c.phase(v1alpha1.PhaseFinal)
		require.EqualValues(t, i+1, c.status().Incident)
		c.trigger = &v1alpha1.Trigger{Type: "Ready", Status: "Unknown"}
		c.node.Ready, c.node.Failing, c.renews, c.bootsAt = false, true, false, 0
		c.until(statemachine.IncidentReopened)
	}
	assert.Len(t, c.status().History, 16)
	assert.Greater(t, c.status().Problems.Count, int32(2))
}

// TestFencesEndWhateverHappens lets things happen that the exploration knows singly, many of them
// one after another, with clocks that run on.
func TestFencesEndWhateverHappens(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		levels := []nodeplan.Level{{feed("bmc")}, {feed("a"), feed("b")}}
		plan := storage()
		plan.PowerManagement = levels[:rapid.IntRange(1, 2).Draw(draw, "levels")]
		c := newCluster(t, plan)
		names := []string{"port", "bmc"}
		if len(plan.PowerManagement) == 2 {
			names = append(names, "a", "b")
		}
		happens := rapid.SliceOfN(rapid.IntRange(0, 400), 0, 12).Draw(draw, "when")
		for step := range 3000 {
			for _, when := range happens {
				if when != step {
					continue
				}
				p := c.plugs[rapid.SampledFrom(names).Draw(draw, "device")]
				switch rapid.IntRange(0, 9).Draw(draw, "what") {
				case 0:
					c.restart()
				case 1:
					p.silent = !p.silent
				case 2:
					p.deaf = !p.deaf
				case 3:
					c.back()
				case 4:
					c.node.Ready, c.node.Failing, c.renews = false, true, false
				case 5:
					p.on, p.foreign = !p.on, !p.on
				case 6:
					c.annotate(v1alpha1.AnnotationStop,
						rapid.SampledFrom([]string{"hold", "restore"}).Draw(draw, "stop"))
				case 7:
					c.node.Missing = true
				case 8:
					c.lost = true
				case 9:
					c.refused = true
				}
			}
			c.step()
			if phase := c.status().Phase; phase.Ended() {
				return
			}
			if hold := c.status().Hold; hold != nil && step > 2000 {
				require.Contains(draw, []string{"RestartNeeded", "NodeReady"}, hold.Reason)
				return
			}
		}
		draw.Fatalf("does not end:\n%s", c.transcript())
	})
}
