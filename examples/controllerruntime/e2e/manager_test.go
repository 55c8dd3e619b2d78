package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// replica returns a replica in this process, for all ConfigMaps of the cluster's namespace.
func (c *cluster) replica() *replica.Replica {
	c.t.Helper()
	r, err := replica.New(shared.Admin(), replica.Config{
		Namespace: c.namespace, Ring: ring, Identity: "a", LeaseDuration: duration,
		Resources: []api.Resource{{
			GVR:        corev1.SchemeGroupVersion.WithResource("configmaps"),
			Namespaces: []string{c.namespace},
		}},
	})
	require.NoError(c.t, err)
	return r
}

// managerOptions are the options of a manager whose cache is not yet that of a shard.
func (c *cluster) managerOptions() ctrl.Options {
	return ctrl.Options{
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{c.namespace: {}}},
		Metrics:                 server.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
		Controller: config.Controller{
			SkipNameValidation: ptr.To(true),
			// The priority queue of v0.24 may leave a goroutine behind, for a worker that has gone.
			UsePriorityQueue: ptr.To(false),
		},
	}
}

func TestTheLeaseIsKeptUntilAWorkerHasReturned(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(1)
	r, options := c.replica(), c.managerOptions()
	options.Cache.NewInformer = r.Shard.NewInformer
	mgr, err := ctrl.NewManager(r.ShardConfig, options)
	require.NoError(t, err)
	told, finish := make(chan struct{}, 100), make(chan struct{})
	require.NoError(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(
		controllerruntime.WrapReconciler[corev1.ConfigMap](r.Shard, mgr.GetClient(), reconcile.Func(
			func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				told <- struct{}{}
				<-ctx.Done()
				told <- struct{}{}
				<-finish // it takes its time
				return ctrl.Result{}, nil
			}))))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, mgr.Start, nil) }()
	<-told
	cancel()
	<-told
	lease := func() (holder string, renewed time.Time) {
		l, err := c.client.CoordinationV1().Leases(c.namespace).Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		return *l.Spec.HolderIdentity, l.Spec.RenewTime.Time
	}
	_, before := lease()
	c.eventually(func() bool {
		holder, renewed := lease()
		require.Equal(t, "a", holder)
		return renewed.After(before)
	}, "the lease is not renewed while a worker is at work")
	assert.Empty(t, ended)
	close(finish)
	assert.NoError(t, <-ended)
	holder, _ := lease()
	assert.Empty(t, holder)
}
