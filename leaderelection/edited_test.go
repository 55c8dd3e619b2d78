package leaderelection_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// A user who looks for the reason why there is no leader finds the field that was edited.
func TestAnEditedDurationIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, candidate := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		leader.start(t)
		candidate.start(t)
		time.Sleep(time.Minute + time.Second) // between two renewals
		a.edit(t, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To[int32](math.MaxInt32) })
		time.Sleep(time.Hour)
		require.Len(t, leader.losses(), 1)
		require.ErrorContains(t, leader.losses()[0], `lease ns/l lost by "a": the record is not ours any more: `+
			`spec.leaseDurationSeconds is 2147483647 instead of 15 (`)
		for _, r := range []*replica{leader, candidate} {
			said := r.logs.FilterMessage("waiting for a far longer lease duration than that of this process").All()
			require.Len(t, said, 1)
			assert.EqualValues(t, math.MaxInt32, said[0].ContextMap()["spec.leaseDurationSeconds"])
		}

		a.edit(t, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To[int32](15) })
		restarted := newReplica(t, a, "c", nil)
		restarted.start(t)
		time.Sleep(16 * time.Second)
		assert.True(t, restarted.IsLeader(), "the remedy")
		for _, r := range []*replica{leader, candidate, restarted} {
			require.NoError(t, r.stop())
		}
	})
}

// Replicas may have other durations, as while a change of it is rolled out.
func TestALongerDurationIsNoMistake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader := newReplica(t, a, "a", func(c *leaderelection.Config) { c.LeaseDuration = 150 * time.Second })
		candidate := newReplica(t, a, "b", nil)
		leader.start(t)
		candidate.start(t)
		time.Sleep(time.Hour)
		assert.Zero(t, candidate.logs.FilterMessageSnippet("waiting for").Len())
		require.NoError(t, leader.stop())
		require.NoError(t, candidate.stop())
	})
}
