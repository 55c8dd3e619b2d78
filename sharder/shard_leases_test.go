package sharder

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// Records may name more shards than the sharder asks about at a time. One that does not fit is no
// news, which would begin a scan that asks about it again. When there is room, it is asked about.
func TestAShardThatIsNotAskedAboutIsNoNews(t *testing.T) {
	kube, meta := fakes(t)
	s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
	require.NoError(t, err)
	told := 0
	leases := s.newShardLeases(s.tracker, func() { told++ })
	for i := range maxAsked {
		leases.ask(protocol.OwnerEpoch{Shard: fmt.Sprint("shard-", i)})
	}
	require.Equal(t, maxAsked, told)
	late := protocol.OwnerEpoch{Shard: "late"}
	leases.ask(late)
	assert.Equal(t, maxAsked, told)
	assert.NotContains(t, leases.known(), "late")

	leases.see(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "shard-0"}}, true)
	told = 0
	leases.ask(late)
	leases.ask(late)
	assert.Equal(t, 1, told)
	assert.Contains(t, leases.known(), "late")
}
