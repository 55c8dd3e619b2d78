package shard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// requests says whether a request of a piece of work may still be carried out.
type requests struct{ open atomic.Bool }

func (r *requests) Open() bool { return r.open.Load() }

var (
	here     = protocol.Address{Resource: ringtest.ConfigMaps, Namespace: "default", Name: "a", UID: "u"}
	earlier  = &shardlease.Term{}
	present  = &shardlease.Term{}
	mine     = cacheState{started: true, complete: true, found: true, assignment: protocol.AssignedHere, version: "5"}
	notMine  = cacheState{started: true, complete: true}
	showMine = func() cacheState { return mine }
)

func work(term *shardlease.Term) *workItem {
	return &workItem{at: here, term: term, scope: &requests{}, cancel: func(error) {}}
}

func TestNothingIsRememberedOfWorkThatIsOver(t *testing.T) {
	var r workTracker
	p, q := work(present), work(present)
	require.NoError(t, r.admit(p, showMine))
	require.NoError(t, r.admit(q, showMine), "several controllers may work on an object at a time")
	assert.Equal(t, 2, r.inFlight(here))
	assert.False(t, r.leave(p, false))
	assert.False(t, r.leave(q, false))
	assert.Empty(t, r.roots)

	assert.ErrorIs(t, r.admit(p, func() cacheState { return notMine }), ErrNotMine)
	assert.Empty(t, r.roots, "a refusal leaves nothing behind")
}

func TestNoWorkBeginsOnARootThatIsClosed(t *testing.T) {
	var r workTracker
	p := work(present)
	require.NoError(t, r.admit(p, showMine))
	require.True(t, r.begin(here))
	r.advance(here, protocol.Closing, "")
	assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotYet)
	assert.True(t, r.leave(p, false), "somebody waits for the end of the last piece of work")
	assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotYet)
	for _, to := range []protocol.DrainState{protocol.AckUncertain, protocol.AckUnseen} {
		r.advance(here, to, "")
		assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotYet)
	}
	r.advance(here, protocol.Accepting, "7")
	assert.False(t, r.finish(here))
	assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotYet, "below the floor")
	r.clearFloor(here, "6")
	assert.Equal(t, "7", r.get(here).floor, "another floor was forgotten")
	r.clearFloor(here, "7")
	assert.NoError(t, r.admit(work(present), showMine))
}

func TestTheEndOfWorkIsReportedOnlyIfNoneIsLeft(t *testing.T) {
	var r workTracker
	p, q := work(present), work(present)
	require.NoError(t, r.admit(p, showMine))
	require.NoError(t, r.admit(q, showMine))
	require.True(t, r.begin(here))
	r.advance(here, protocol.Closing, "")
	assert.False(t, r.leave(p, false))
	assert.True(t, r.leave(q, false))
}

func TestAFloorOnlyRises(t *testing.T) {
	var r workTracker
	require.True(t, r.begin(here))
	for _, floor := range []string{"9", "", "8"} {
		r.advance(here, protocol.Accepting, floor)
		assert.Equal(t, "9", r.get(here).floor)
	}
	r.advance(here, protocol.Accepting, "10")
	assert.Equal(t, "10", r.get(here).floor)
	assert.False(t, r.finish(here))
	assert.True(t, r.knows(here))
	assert.Equal(t, []protocol.Address{here}, r.unfinished(ringtest.ConfigMaps))
	assert.Empty(t, r.unfinished(ringtest.Nodes))
}

func TestWorkWithOpenRequestsIsRememberedUntilTheyAreOver(t *testing.T) {
	var r workTracker
	p, q := work(present), work(present)
	first, second := &requests{}, &requests{}
	first.open.Store(true)
	second.open.Store(true)
	p.scope, q.scope = first, second
	require.NoError(t, r.admit(p, showMine))
	require.NoError(t, r.admit(q, showMine))
	r.leave(p, true)
	r.leave(q, true)
	assert.Zero(t, r.inFlight(here))
	assert.True(t, r.pending(here))
	require.NoError(t, r.admit(work(present), showMine), "the object is still this shard's")

	first.open.Store(false)
	r.forgetEnded()
	assert.True(t, r.pending(here))
	second.open.Store(false)
	assert.False(t, r.pending(here))
	r.forgetEnded()
	assert.Empty(t, r.late)
	assert.Empty(t, r.roots[here].ended)
}

func TestNoWorkBeginsBesideThatOfAnEarlierTerm(t *testing.T) {
	var r workTracker
	p := work(earlier)
	require.NoError(t, r.admit(p, showMine))
	assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotYet)
	r.leave(p, false)
	assert.NoError(t, r.admit(work(present), showMine))
}

func TestARootIsSettledByOneAtATime(t *testing.T) {
	var r workTracker
	require.True(t, r.begin(here))
	assert.False(t, r.begin(here))
	assert.True(t, r.finish(here), "somebody else has asked for it")
	assert.Empty(t, r.roots)
	require.True(t, r.begin(here))
	assert.False(t, r.finish(here))
}

func TestWorkOnADrainedRootIsCancelled(t *testing.T) {
	var r workTracker
	ctx, cancel := context.WithCancelCause(t.Context())
	p := work(present)
	p.cancel = cancel
	require.NoError(t, r.admit(p, showMine))
	r.cancelWork(here, ErrDrained)
	assert.ErrorIs(t, context.Cause(ctx), ErrDrained)
}

func TestTheEndOfATermWaitsForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r workTracker
		assert.NoError(t, r.await(t.Context()), "there is none")

		p := work(present)
		require.NoError(t, r.admit(p, showMine))
		r.close(present)
		assert.ErrorIs(t, r.admit(work(present), showMine), ErrNotMine)

		lost, lose := context.WithCancelCause(t.Context())
		cause := errors.New("lost")
		lose(cause)
		assert.ErrorIs(t, r.await(lost), cause)

		returned := make(chan error, 1)
		go func() { returned <- r.await(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, returned)
		r.leave(p, false)
		assert.NoError(t, <-returned)

		r.close(earlier)
		assert.NoError(t, r.admit(work(present), showMine))
	})
}
