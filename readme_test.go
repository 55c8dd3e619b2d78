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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
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

	// What is added to an operator compiles where controller-runtime is.
	compiled, err = os.ReadFile("examples/controllerruntime/readme_test.go")
	require.NoError(t, err)
	_, diff, found := strings.Cut(string(readme), "```diff\n")
	require.True(t, found)
	diff, _, _ = strings.Cut(diff, "```")
	rest := string(compiled)
	for line := range strings.Lines(diff) {
		if code, added := strings.CutPrefix(line, "+"); added {
			_, rest, found = strings.Cut(rest, strings.TrimSpace(code)+"\n")
			assert.True(t, found, code)
		}
	}
	_, _ = run, shards
}

var (
	controller func(ctx context.Context, guarded *rest.Config) error
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

func shards(ctx context.Context, config *rest.Config) error {
	r, err := replica.New(config, replica.Config{
		Lease:     shardlease.Config{Namespace: "default", Ring: "checksums"},
		Resources: []sharder.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
	})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(r.Mine) // it writes only while this replica holds its lease
	if err != nil {
		return err
	}
	return r.Run(ctx, func(ctx context.Context) error {
		source := sharder.ListerWatcher(client.CoreV1().ConfigMaps(""), client)
		informer := r.Shard.NewInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
		return sharder.Reconcile(ctx, r.Shard, informer, 4, reconcile)
	}, nil)
}
