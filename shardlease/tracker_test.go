package shardlease_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// tracker is one that is fed when things happen.
type tracker struct {
	*shardstate.Tracker
	clock clock.Clock
}

func newTracker(t *testing.T) *tracker {
	t.Helper()
	r, err := shardstate.NewTracker(shardstate.Config{Namespace: "ns", Ring: "r"})
	require.NoError(t, err)
	return &tracker{r, clock.System()}
}

func (r *tracker) now() shardstate.Reading { return r.clock.Now() }

func (r *tracker) see(l *coordinationv1.Lease) bool { return r.Observe(l, r.now()) }
