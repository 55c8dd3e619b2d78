package sharder

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// replica starts a process that is a shard and a candidate for the sharder's Lease.
func (k *cluster) replica(name string) *testShard {
	s := &testShard{connection: k.server.Client(name)}
	kube, meta := k.clients(s.connection)
	lease, err := shardlease.New(kube, shardlease.Config{
		Namespace: testNamespace, Ring: testRing, Identity: name, OnLost: func(error) {},
	})
	require.NoError(k.t, err)
	elector, err := leaderelection.New(kube, leaderelection.Config{
		Namespace: testNamespace, Name: "election", Identity: name, OnLost: func(error) {},
	})
	require.NoError(k.t, err)
	s.sharder, err = New(kube, meta, ringtest.TestMapper(), k.config())
	require.NoError(k.t, err)
	s.release = k.begin(func(ctx context.Context) {
		_ = lease.Run(ctx, func(ctx context.Context) error {
			term, err := lease.Term()
			if err != nil {
				return err
			}
			ended := make(chan error)
			go func() { ended <- s.sharder.RunElected(ctx, elector.Run) }()
			k.acknowledge(ctx, s, name, meta, term.Epoch())
			return <-ended
		})
	})
	return s
}

// A crash of the sharder takes no longer to repair than a crash of a plain shard. The test cuts off
// a replica forever and measures when other shards have its objects. The next sharder has followed
// the Leases before its election.
func TestACrashOfTheSharderIsThatOfAShard(t *testing.T) {
	for name, sharder := range map[string]bool{"a plain shard": false, "the sharder's": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				replicas := map[string]*testShard{}
				for _, name := range []string{"a", "b", "c", "d"} {
					replicas[name] = k.replica(name)
					time.Sleep(time.Second)
				}
				k.create(40, "o")
				time.Sleep(time.Minute)
				k.requirePlaced(40, "a", "b", "c", "d")
				leader, victim := k.holder("election"), "a"
				require.Equal(t, "a", leader, "it came first")
				if !sharder {
					victim = "b"
				}
				replicas[victim].kill()
				delete(replicas, victim)
				crashed := time.Now()
				for k.owners()["-"]+k.owners()[victim] > 0 {
					time.Sleep(500 * time.Millisecond)
					require.Less(t, time.Since(crashed), time.Minute)
				}
				const d = 15 * time.Second
				assert.Less(t, time.Since(crashed), 2*d+time.Second)
				assert.Greater(t, time.Since(crashed), 2*d-4*time.Second, "no sooner than its lease proves")
				for name := range maps.Keys(replicas) {
					replicas[name].release()
				}
			})
		})
	}
}

// holder returns the holder of a lease.
func (k *cluster) holder(shard string) string {
	lease, err := k.kube.CoordinationV1().Leases(testNamespace).Get(k.t.Context(), shard, metav1.GetOptions{})
	require.NoError(k.t, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
