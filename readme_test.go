package bellwether_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// What the README shows compiles, because it stands here.
func TestTheReadmesCodeCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	compiled, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(readme), "```go\n")[1:]
	assert.Len(t, blocks, 2)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		assert.Contains(t, string(compiled), "\n"+code)
	}
	_, _ = run, replica
}

type clients struct {
	kube    kubernetes.Interface
	objects metadata.Interface
}

func guarded(*rest.Config, transport.WrapperFunc) clients { return clients{} }

var (
	controller func(ctx context.Context, guarded *rest.Config) error
	mapper     meta.RESTMapper
	reconcile  func(ctx context.Context, m *corev1.ConfigMap) error
)

func run(ctx context.Context, config *rest.Config, log *zap.Logger) error {
	// A client of its own: renewals must not queue behind your controller's requests.
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: "default",
		Name:      "my-controller",
		Logger:    log,
		// KernelDeadline: true ends also a process that is stopped; see ReexecIfPID1 for containers.
	})
	if err != nil {
		return err
	}
	// What the controller's clients are made from: they write only while this process leads.
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	// Blocks: waits for the leadership, works, and releases it when ctx ends and the work has returned.
	// If the leadership is lost the process exits with 75.
	return elector.Run(ctx, func(ctx context.Context) error {
		return controller(ctx, guarded)
	})
}

func replica(ctx context.Context, config *rest.Config, leases kubernetes.Interface) error {
	resources := []sharder.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}}
	// This replica's part: an object is worked on while the lease is held, and with clients that it guards.
	lease, err := shardlease.New(leases, shardlease.Config{Namespace: "default", Ring: "checksums"})
	if err != nil {
		return err
	}
	mine := guarded(config, lease.WrapTransport)
	shard, err := sharder.NewShard(mine.objects, mapper, lease, sharder.ShardConfig{Resources: resources})
	if err != nil {
		return err
	}
	// Who gets what is for one of the replicas to say. If it loses the leadership it goes on as a shard.
	elector, err := leaderelection.New(leases, leaderelection.Config{Namespace: "default", Name: "checksums-sharder", OnLost: func(error) {}})
	if err != nil {
		return err
	}
	everyones := guarded(config, elector.WrapTransport)
	s, err := sharder.New(everyones.kube, everyones.objects, mapper, sharder.Config{Namespace: "default", Ring: "checksums", Resources: resources})
	if err != nil {
		return err
	}
	return sharder.Replica{Lease: lease, Elector: elector, Sharder: s}.Run(ctx, func(ctx context.Context) error {
		source := sharder.ListerWatcher(mine.kube.CoreV1().ConfigMaps(""), mine.kube)
		informer := shard.NewInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
		return sharder.Reconcile(ctx, shard, informer, 4, reconcile)
	})
}
