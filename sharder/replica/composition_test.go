package replica

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// lone is the only replica of its ring.
type lone struct {
	*Replica
	t      *testing.T
	kube   kubernetes.Interface // of a user
	events chan string          // the loss and the release of its lease, and what tests send
}

func alone(t *testing.T, test func(*testing.T, lone)) {
	synctest.Test(t, func(t *testing.T) {
		server, events := apisim.NewServer(), make(chan string, 10)
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		r, err := New(server.Client("a").Config(), Config{
			Namespace: "default", Ring: "checksums", Identity: "a", Mapper: mapper,
			Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
			OnLost:    func(error) { events <- "lost" },
			Hooks: Hooks{Lease: shardlease.Hooks{
				OnReleased: func(shardlease.Epoch) { events <- "released" },
			}},
		})
		require.NoError(t, err)
		kube := kubernetes.NewForConfigOrDie(server.Client("user").Config())
		source := shard.ListerWatcher(kube.CoreV1().ConfigMaps(""), kube)
		go r.Shard.NewInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}).RunWithContext(t.Context())
		test(t, lone{r, t, kube, events})
	})
}

// elect is the Run of the replica's elector. It sends an event when the leadership has been given up.
func (r lone) elect(ctx context.Context, lead func(context.Context) error) error {
	err := r.Elector.Run(ctx, lead)
	r.events <- "leadership given up"
	return err
}

// create creates three objects.
func (r lone) create() {
	r.t.Helper()
	for i := range 3 {
		_, err := r.kube.CoreV1().ConfigMaps("default").Create(r.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("o", i)}}, metav1.CreateOptions{})
		require.NoError(r.t, err)
	}
}

// requirePlaced asserts that they are with the replica.
func (r lone) requirePlaced() {
	r.t.Helper()
	list, err := r.kube.CoreV1().ConfigMaps("default").List(r.t.Context(),
		metav1.ListOptions{LabelSelector: api.ShardLabel("checksums") + "=a"})
	require.NoError(r.t, err)
	require.Len(r.t, list.Items, 3)
}

func TestAReplicaEndsItsWorkThenTheSharderThenItsLease(t *testing.T) {
	alone(t, func(t *testing.T, r lone) {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- r.run(ctx, r.elect, func(ctx context.Context) error {
				<-ctx.Done()
				r.create()
				time.Sleep(time.Second)
				r.requirePlaced() // the sharder is still at work
				r.events <- "work has ended"
				return ctx.Err()
			}, nil)
		}()
		time.Sleep(time.Second)
		end()
		require.NoError(t, <-ended)
		assert.Equal(t, "work has ended", <-r.events)
		assert.Equal(t, "leadership given up", <-r.events)
		assert.Equal(t, "released", <-r.events)
		assert.Empty(t, r.events)
	})
}

func TestAReplicaWhoseSharderFailsEndsAndReleasesItsLease(t *testing.T) {
	failure := errors.New("not allowed")
	for name, c := range map[string]struct {
		failure error // of the election
		late    bool  // the process must end before the work has
		want    string
	}{
		"an error":              {failure, false, "not allowed"},
		"an error at the end":   {failure, true, "not allowed"},
		"an election that ends": {nil, false, "replica: the election has ended without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(t *testing.T, r lone) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				elect := func(context.Context, func(context.Context) error) error { return c.failure }
				err := r.run(ctx, elect, func(ctx context.Context) error {
					<-ctx.Done()
					if c.late {
						end()
					}
					return context.Cause(ctx)
				}, nil)
				require.EqualError(t, err, c.want)
				assert.Equal(t, "released", <-r.events)
				assert.Empty(t, r.events)
			})
		})
	}
}

func TestAReplicaWhoseWorkFailsEndsItsSharderAndKeepsItsLease(t *testing.T) {
	alone(t, func(t *testing.T, r lone) {
		failure := errors.New("no cache")
		err := r.Run(t.Context(), func(context.Context) error { return failure }, nil)
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, shardlease.ErrUnfinished, "some of it may still be running")
		assert.Equal(t, "lost", <-r.events)
		_, runs := r.Sharder.Status()
		assert.False(t, runs)
		lease, err := r.kube.CoordinationV1().Leases("default").Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "a", ptr.Deref(lease.Spec.HolderIdentity, ""))
	})
}

func TestAReplicaThatLosesItsLeaseWorksAgain(t *testing.T) {
	alone(t, func(t *testing.T, r lone) {
		ctx, end := context.WithCancel(t.Context())
		terms := 0
		assert.NoError(t, r.Run(ctx, func(ctx context.Context) error {
			terms++
			if terms == 2 {
				time.Sleep(time.Second)
				_, runs := r.Sharder.Status()
				assert.True(t, runs)
				end()
				return nil
			}
			assert.NoError(t,
				r.kube.CoordinationV1().Leases("default").Delete(t.Context(), "a", metav1.DeleteOptions{}))
			<-ctx.Done() // which may come before the answer
			return ctx.Err()
		}, nil))
		assert.Equal(t, "lost", <-r.events)
		assert.Equal(t, "released", <-r.events)
		assert.Equal(t, 2, terms)
	})
}

func TestWhatOnlyOneReplicaDoesRunsBesideTheSharder(t *testing.T) {
	alone(t, func(t *testing.T, r lone) {
		ctx, end := context.WithCancel(t.Context())
		assert.NoError(t, r.run(ctx, r.elect, func(ctx context.Context) error {
			r.create()
			time.Sleep(time.Second)
			r.requirePlaced()
			end()
			<-ctx.Done()
			r.events <- "work has ended"
			return nil
		}, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			r.events <- "what only the leader does has ended"
			return ctx.Err()
		}))
		assert.Equal(t, "work has ended", <-r.events)
		assert.Equal(t, "what only the leader does has ended", <-r.events)
		assert.Equal(t, "leadership given up", <-r.events)
		assert.Equal(t, "released", <-r.events)
		assert.Empty(t, r.events)
	})
}

func TestAReplicaEndsIfWhatOnlyOneDoesFails(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		want    string
	}{
		"an error":         {errors.New("no cache"), "no cache"},
		"an early end":     {nil, "replica: leading has ended without a reason"},
		"a foreign cancel": {context.Canceled, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, func(t *testing.T, r lone) {
				err := r.Run(t.Context(), func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				}, func(context.Context) error {
					time.Sleep(time.Second)
					return c.failure
				})
				require.EqualError(t, err, c.want)
				_, runs := r.Sharder.Status()
				assert.False(t, runs)
				assert.Equal(t, "released", <-r.events)
				assert.Empty(t, r.events)
			})
		})
	}
}

func TestWhatOnlyOneReplicaDoesEndsIfTheSharderCannotRun(t *testing.T) {
	alone(t, func(t *testing.T, r lone) {
		ended := false
		leading := func(ctx context.Context) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}
		other := make(chan error, 1)
		sharding, stop := context.WithCancel(t.Context())
		go func() { other <- r.Sharder.Run(sharding) }()
		time.Sleep(time.Second)
		assert.ErrorIs(t, runBeside(t.Context(), r.Sharder.Run, leading), sharder.ErrBusy)
		assert.True(t, ended)
		stop()
		assert.NoError(t, <-other)
	})
}
