package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Records may name more shards than the sharder asks about at a time. One that does not fit is no
// news, which would begin a scan that asks about it again. When there is room, it is asked about.
func TestAShardThatIsNotAskedAboutIsNoNews(t *testing.T) {
	tracker, err := shardstate.NewTracker(shardstate.Config{
		Namespace: testNamespace, Ring: testRing, LeaseDuration: 15 * time.Second,
	})
	require.NoError(t, err)
	shards := NewShards(Config{Clock: clock.System()}, tracker)
	told := func() bool {
		select {
		case <-shards.changed:
			return true
		default:
			return false
		}
	}
	for i := range maxAsked {
		shards.Ask(protocol.OwnerEpoch{Shard: fmt.Sprint("shard-", i)})
		require.True(t, told())
	}
	late := protocol.OwnerEpoch{Shard: "late"}
	shards.Ask(late)
	assert.False(t, told())
	assert.NotContains(t, shards.Names(), "late")

	shards.see(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "shard-0"}}, true)
	told()
	shards.Ask(late)
	assert.True(t, told())
	shards.Ask(late)
	assert.False(t, told())
	assert.Contains(t, shards.Names(), "late")
}
