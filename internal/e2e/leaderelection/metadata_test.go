package leaderelection_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// annotate writes metadata of the Lease at every interval, and returns how to end that, which
// returns how often it has.
func (m *team) annotate(every time.Duration) (stop func() int) {
	ctx, cancel := context.WithCancel(m.t.Context())
	written := make(chan int, 1)
	go func() {
		n, tick := 0, time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, n)
			if _, err := m.client().CoordinationV1().Leases(m.namespace).Patch(ctx, "l", types.MergePatchType,
				[]byte(patch), metav1.PatchOptions{}); err == nil {
				n++
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		written <- n
	}()
	return func() int {
		cancel()
		return <-written
	}
}

// TestMetadataWriters write the Lease's annotations several times in a renew interval. The leader
// goes on, and is succeeded when it is dead.
func TestMetadataWriters(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		m := newTeam(t, shared)
		leader := m.start("a")
		m.requireRunnerUp("b")
		stop := m.annotate(interval / 5)
		settled := time.Now()
		m.requireAudited("a", settled, "update 200", int(3*duration/interval)) // three leases long
		assert.Len(t, m.journal(), 1, "nothing happens")

		require.NoError(t, leader.Kill())
		killed := time.Now()
		next := m.term(2)
		assert.Equal(t, "b", next.replica)
		t.Logf("the next leader began %v after kill -9, and the Lease was annotated %d times", next.first.Sub(killed),
			stop())
		assert.GreaterOrEqual(t, next.first.Sub(m.lastWrite("a", next.first)), duration-100*time.Millisecond)
		assert.LessOrEqual(t, next.first.Sub(killed), duration+interval+m.gauge.Slack(killed))
		m.requireOneLeader()
	})
}
