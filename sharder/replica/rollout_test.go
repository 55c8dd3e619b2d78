package replica_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// TestRollOutOfADeployment replaces all Pods and counts how often objects change their owner. Each
// new Pod is ready before an old one stops.
func TestRollOutOfADeployment(t *testing.T) {
	moves := func(claim bool) (changes float64) {
		synctest.Test(t, func(t *testing.T) { changes = rollOut(t, claim) })
		return changes
	}
	named, claimed := moves(false), moves(true)
	t.Logf("changes of owner an object: %.2f with names of Pods, %.2f with claimed names", named, claimed)
	assert.Greater(t, named, 1.2)
	assert.Less(t, claimed, 0.5, "those of the first new Pod, and of the last old one")
}

func rollOut(t *testing.T, claim bool) (changes float64) {
	const pods, objects = 5, 60
	server := apisim.NewServer()
	admin := kubernetes.NewForConfigOrDie(server.Client("admin").Config())
	for i := range objects {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", i)}}
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var mu sync.Mutex
	owners, moved := map[string]string{}, 0
	server.Observe(func(c apisim.Change) {
		if c.After == nil || c.After.GetKind() != "ConfigMap" {
			return
		}
		shard := c.After.GetLabels()[api.ShardLabel("checksums")]
		mu.Lock()
		defer mu.Unlock()
		if before := owners[c.After.GetName()]; shard != "" && before != shard {
			owners[c.After.GetName()] = shard
			if before != "" {
				moved++
			}
		}
	})

	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	start := func(pod string) (ready func() error, stop func()) {
		c := minimal()
		config := server.Client(pod).Config()
		var r *replica.Replica
		var err error
		if claim {
			c.Identity = ""
			r, err = replica.Claim(ctx, config, c)
		} else {
			c.Identity = pod
			r, err = replica.New(config, c)
		}
		require.NoError(t, err)
		client, err := kubernetes.NewForConfig(r.ShardConfig)
		require.NoError(t, err)
		run, stop := context.WithCancel(ctx)
		running.Go(func() {
			seen := make(chan string, 10_000)
			assert.NoError(t, r.Run(run, func(ctx context.Context) error {
				defer time.Sleep(time.Second) // work takes a second to stop
				return work(r, client, seen)(ctx)
			}, nil))
		})
		return func() error { return r.Ready(nil) }, stop
	}
	var old []func()
	for i := range pods {
		_, stop := start(fmt.Sprintf("old-%d", i))
		old = append(old, stop)
		time.Sleep(time.Second)
	}
	time.Sleep(2 * time.Minute)
	mu.Lock()
	require.Len(t, owners, objects)
	moved = 0
	mu.Unlock()
	for i, stop := range old {
		time.Sleep(500 * time.Millisecond) // a container starts
		ready, _ := start(fmt.Sprintf("new-%d", i))
		for ready() != nil {
			time.Sleep(100 * time.Millisecond)
		}
		stop()
	}
	time.Sleep(3 * time.Minute)
	mu.Lock()
	defer mu.Unlock()
	counts := map[string]int{}
	for _, shard := range owners {
		counts[shard]++
	}
	assert.Len(t, counts, pods, "%v", counts)
	return float64(moved) / objects
}

// Claim gives the name back if the replica cannot be made. Here the mapper does not know the
// resource.
func TestNameIsGivenBackByAReplicaThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		c := minimal()
		c.Identity, c.Mapper = "", meta.NewDefaultRESTMapper(nil)
		_, err := replica.Claim(t.Context(), server.Client("a").Config(), c)
		require.ErrorContains(t, err, "configmaps")
		leases := kubernetes.NewForConfigOrDie(server.Client("admin").Config()).CoordinationV1().Leases("default")
		l, err := leases.Get(t.Context(), "checksums-0", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, *l.Spec.HolderIdentity)
	})
}
