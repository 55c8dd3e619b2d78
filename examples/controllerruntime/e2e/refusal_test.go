package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// Easily forgotten steps are refused, with a reason, and the reconciler is not called.
func TestUnwiredManagerDoesNoWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  func(r *replica.Replica) *rest.Config
		options func(r *replica.Replica, o *ctrl.Options)
		want    error
		says    string
	}{
		"clients without the guard": {
			config:  func(*replica.Replica) *rest.Config { return shared.Admin() },
			options: func(r *replica.Replica, o *ctrl.Options) { o.Cache.NewInformer = r.Shard.NewInformer },
			want:    shard.ErrUnguarded,
		},
		"a cache of other informers": {
			config:  func(r *replica.Replica) *rest.Config { return r.ShardConfig },
			options: func(*replica.Replica, *ctrl.Options) {},
			want:    shard.ErrNotYet, says: "cache.Options.NewInformer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.create(1)
			refused := make(chan error, 100)
			r := c.replica()
			options := c.managerOptions()
			test.options(r, &options)
			mgr, err := ctrl.NewManager(test.config(r), options)
			require.NoError(t, err)
			require.NoError(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
					var m corev1.ConfigMap
					if err := mgr.GetClient().Get(ctx, q.NamespacedName, &m); err != nil {
						return ctrl.Result{}, client.IgnoreNotFound(err)
					}
					err := r.Shard.Do(ctx, &m, func(context.Context) error {
						assert.Fail(t, "work was called")
						return nil
					})
					if err != nil {
						select {
						case refused <- err:
						default:
						}
					}
					return ctrl.Result{}, nil
				})))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx, mgr.Start, nil) }()
			select {
			case err := <-refused:
				assert.ErrorIs(t, err, test.want)
				assert.ErrorContains(t, err, test.says)
			case err := <-ended:
				require.FailNow(t, "ended", "%v", err)
			}
			cancel()
			assert.NoError(t, <-ended)
		})
	}
}
