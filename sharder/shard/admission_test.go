package shard

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/stretchr/testify/assert"
)

// Work begins only if everything allows it. The term is not closed, and the root is not being
// acknowledged. The root's cache began with a consistent list. The newest copy names this shard and
// no drain. No copy is from before the last acknowledgement.
func TestWorkBeginsOnlyIfEverythingAllowsIt(t *testing.T) {
	good := admission{
		floor:  "7",
		caches: cacheState{started: true, complete: true, found: true, assignment: protocol.AssignedHere, version: "7"},
	}
	assert.NoError(t, good.refusal())
	for name, test := range map[string]struct {
		change func(*admission)
		want   error
	}{
		"no floor":                 {func(a *admission) { a.floor, a.caches.version = "", "" }, nil},
		"above the floor":          {func(a *admission) { a.caches.version = "10" }, nil},
		"closed":                   {func(a *admission) { a.closed = true }, ErrNotMine},
		"acknowledgement begun":    {func(a *admission) { a.drainState = protocol.Closing }, ErrNotYet},
		"acknowledgement sent":     {func(a *admission) { a.drainState = protocol.AckUncertain }, ErrNotYet},
		"acknowledgement not seen": {func(a *admission) { a.drainState = protocol.AckUnseen }, ErrNotYet},
		"work of an earlier term":  {func(a *admission) { a.outlived = true }, ErrNotYet},
		"no consistent cache":      {func(a *admission) { a.caches.started = false }, ErrNotYet},
		"gone": {
			func(a *admission) { a.caches = cacheState{started: true, complete: true} }, ErrNotMine,
		},
		"not arrived": {func(a *admission) { a.caches = cacheState{started: true} }, ErrNotYet},
		"elsewhere":   {func(a *admission) { a.caches.assignment = protocol.AssignedElsewhere }, ErrNotMine},
		"drained":     {func(a *admission) { a.caches.assignment = protocol.AssignedDraining }, ErrNotMine},
		"of another epoch": {
			func(a *admission) { a.caches.assignment = protocol.AssignedFormerEpoch }, ErrNotMine,
		},
		"stray": {
			func(a *admission) { a.caches.assignment = protocol.AssignedUnrecorded },
			ErrNotMine,
		},
		"below the floor":          {func(a *admission) { a.caches.version = "6" }, ErrNotYet},
		"version unknown":          {func(a *admission) { a.caches.version = "" }, ErrNotYet},
		"older than every cache's": {func(a *admission) { a.caches.stale = true }, ErrNotYet},
		"handed over and back, stale": {
			func(a *admission) { a.drainState, a.floor, a.caches.version = protocol.Accepting, "9", "8" }, ErrNotYet,
		},
	} {
		a := good
		test.change(&a)
		if test.want == nil {
			assert.NoError(t, a.refusal(), name)
		} else {
			assert.ErrorIs(t, a.refusal(), test.want, name)
		}
	}
}
