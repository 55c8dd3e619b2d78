package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// What the README shows compiles, because it stands here. The README of the whole project shows lines of it, too.
func TestTheReadmesCodeCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	compiled, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(readme), "```go\n")[1:]
	assert.Len(t, blocks, 1)
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		assert.Contains(t, string(compiled), "\n"+code)
	}
	_ = operator
}

var reconciler reconcile.Reconciler

func operator(ctx context.Context, config *rest.Config, namespace string, resources []sharder.Resource) error {
	r, err := replica.New(config, replica.Config{Lease: shardlease.Config{Namespace: namespace, Ring: "widgets"}, Resources: resources})
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(r.Mine, ctrl.Options{
		Cache:                   cache.Options{NewInformer: r.Shard.NewInformer},
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
	})
	if err != nil {
		return err
	}
	get := func(ctx context.Context, q ctrl.Request) (*corev1.ConfigMap, error) {
		m := &corev1.ConfigMap{}
		return m, mgr.GetClient().Get(ctx, q.NamespacedName, m)
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		Complete(reconcile.Func(sharder.Guarded(r.Shard, get, reconciler.Reconcile)))
	if err != nil {
		return err
	}
	return r.Run(ctx, mgr.Start, nil)
}
