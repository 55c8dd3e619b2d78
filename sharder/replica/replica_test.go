package replica_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

var configMaps = api.Resource{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return m
}

func minimal() replica.Config {
	return replica.Config{
		Namespace: "default", Ring: "checksums", Identity: "a",
		Resources: []api.Resource{configMaps},
		Mapper:    mapper(),
	}
}

// newReplica returns a replica, and a client that is made from its ShardConfig. Every program with
// work makes such a client.
func newReplica(t *testing.T, config *rest.Config, c replica.Config) (*replica.Replica, kubernetes.Interface) {
	r, err := replica.New(config, c)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(r.ShardConfig)
	require.NoError(t, err)
	return r, client
}

// work returns a sharded controller that sends the names of its objects to seen.
func work(r *replica.Replica, client kubernetes.Interface, seen chan<- string) func(context.Context) error {
	return func(ctx context.Context) error {
		informer := r.Shard.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client),
			&corev1.ConfigMap{}, 0, cache.Indexers{})
		return shard.RunController(ctx, r.Shard, informer, 1, func(_ context.Context, m *corev1.ConfigMap) error {
			seen <- m.Name
			return nil
		})
	}
}

func TestAReplicaDistributesAndWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		r, client := newReplica(t, server.Client("a").Config(), minimal())
		assert.ErrorIs(t, r.Ready(nil), shardlease.ErrNotHeld)
		assert.NoError(t, r.Alive(nil))
		leaders, err := kubernetes.NewForConfig(r.LeaderConfig)
		require.NoError(t, err)

		ctx, end := context.WithCancel(t.Context())
		seen, led, ended := make(chan string, 10), make(chan error, 1), make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, work(r, client, seen), func(ctx context.Context) error {
				_, err := leaders.CoreV1().ConfigMaps("default").Create(ctx,
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "by-the-leader"}}, metav1.CreateOptions{})
				led <- err
				<-ctx.Done()
				return nil
			})
		}()
		assert.NoError(t, <-led)
		assert.Equal(t, "by-the-leader", <-seen)
		assert.NoError(t, r.Ready(nil))
		assert.NoError(t, r.Alive(nil))
		lease, err := leaders.CoordinationV1().Leases("default").Get(ctx, "checksums-sharder", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Regexp(t, "^"+minimal().Identity+"_[0-9a-f]{16}$", *lease.Spec.HolderIdentity)
		end()
		assert.NoError(t, <-ended)
		assert.ErrorIs(t, r.Ready(nil), shardlease.ErrNotHeld)

		for guard, client := range map[error]kubernetes.Interface{
			shardlease.ErrNotHeld:       client,
			leaderelection.ErrNotLeader: leaders,
		} {
			_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
			assert.ErrorIs(t, err, guard)
		}
	})
}

func TestAReplicaThatIsNotElectedAnyMoreWorksOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin, err := kubernetes.NewForConfig(server.Client("admin").Config())
		require.NoError(t, err)
		r, client := newReplica(t, server.Client("a").Config(), minimal())
		ctx, end := context.WithCancel(t.Context())
		seen, terms, ended := make(chan string, 10), make(chan error, 10), make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, work(r, client, seen), func(ctx context.Context) error {
				terms <- nil
				<-ctx.Done()
				terms <- context.Cause(ctx)
				return nil
			})
		}()
		assert.NoError(t, <-terms)
		require.NoError(t,
			admin.CoordinationV1().Leases("default").Delete(ctx, "checksums-sharder", metav1.DeleteOptions{}))
		assert.ErrorIs(t, <-terms, leaderelection.ErrLost)
		assert.NoError(t, <-terms, "and is elected again")
		assert.NoError(t, r.Ready(nil))
		_, err = admin.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "x", <-seen)
		end()
		assert.NoError(t, <-ended)
	})
}

func TestWorkWithClientsThatAreNotGuardedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		config := server.Client("a").Config()
		r, err := replica.New(config, minimal())
		require.NoError(t, err)
		unguarded, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		assert.NoError(t, r.Run(t.Context(), func(ctx context.Context) error {
			m, err := unguarded.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.ErrorIs(t, r.Shard.Do(ctx, m, func(context.Context) error { return errors.New("called") }),
				shard.ErrUnguarded)
			return nil
		}, nil))
	})
}

func TestTheGuardIsInnermost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, passed := apisim.NewServer().Client("a").Config(), 0
		config.Wrap(func(base http.RoundTripper) http.RoundTripper {
			return counting{base, &passed}
		})
		_, client := newReplica(t, config, minimal())
		assert.Error(t, client.CoreV1().ConfigMaps("default").Delete(t.Context(), "x", metav1.DeleteOptions{}))
		assert.Equal(t, 1, passed, "the wrapper of the user saw the request, and the guard refused it after that")
	})
}

type counting struct {
	http.RoundTripper
	n *int
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	*c.n++
	return c.RoundTripper.RoundTrip(r)
}

func TestBadConfig(t *testing.T) {
	config := &rest.Config{Host: "https://example.invalid"}
	_, err := replica.New(nil, minimal())
	assert.ErrorContains(t, err, "replica: config: must not be nil")
	for want, change := range map[string]func(*replica.Config){
		"shardlease: Ring":      func(c *replica.Config) { c.Ring = "" },
		"shardlease: Weight":    func(c *replica.Config) { c.Weight = ptr.To(-1) },
		"shardlease: Version":   func(c *replica.Config) { c.Version = "1\n" },
		"leaderelection: Name":  func(c *replica.Config) { c.ElectionName = "A b" },
		"sharder: Resources":    func(c *replica.Config) { c.Resources = nil },
		"shard: AckGrace":       func(c *replica.Config) { c.AckGrace = -1 },
		"sharder: Balance":      func(c *replica.Config) { c.Balance = 0.5 },
		"sharder: ScanInterval": func(c *replica.Config) { c.ScanInterval = -1 },
	} {
		c := minimal()
		change(&c)
		_, err := replica.New(config, c)
		assert.ErrorContains(t, err, want)
	}
	_, err = replica.New(&rest.Config{Host: "://"}, minimal())
	assert.ErrorContains(t, err, "replica: make the client of the leases")
}

// A replica that has stepped down works again after an outage, with the informer that it had.
func TestAReplicaStepsDownInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		connection := server.Client("a")
		c := minimal()
		c.StepDown = 3 * time.Second
		c.OnLost = func(err error) { assert.NoError(t, err) }
		r, client := newReplica(t, connection.Config(), c)
		users, err := kubernetes.NewForConfig(server.Client("user").Config())
		require.NoError(t, err)
		_, err = users.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		informer := r.Shard.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client),
			&corev1.ConfigMap{}, 0, cache.Indexers{})
		shown, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(shown)
			informer.RunWithContext(ctx) // for the life of the process
		}()
		synctest.Wait() // or RunController would run it
		seen, terms := make(chan string, 100), atomic.Int64{}
		go func() {
			ended <- r.Run(ctx, func(ctx context.Context) error {
				terms.Add(1)
				return shard.RunController(ctx, r.Shard, informer, 1,
					func(_ context.Context, m *corev1.ConfigMap) error {
						seen <- m.Name
						return nil
					})
			}, nil)
		}()
		for n := range 3 {
			time.Sleep(time.Minute)
			assert.EqualValues(t, n+1, terms.Load())
			require.NotEmpty(t, seen)
			for len(seen) > 0 {
				assert.Equal(t, "x", <-seen)
			}
			connection.Inject(apisim.Faults{Refuse: apisim.Always, Silent: true})
			time.Sleep(20 * time.Second)
			assert.ErrorIs(t, r.Ready(nil), shardlease.ErrNotHeld)
			connection.Inject(apisim.Faults{})
		}
		end()
		assert.NoError(t, <-ended)
		<-shown
	})
}

func TestStepDownOfAReplica(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 3*time.Second + 1} {
		c := minimal()
		c.StepDown = d
		_, err := replica.New(&rest.Config{Host: "http://127.0.0.1:1"}, c)
		assert.ErrorContains(t, err, "replica: StepDown: must be from 0 to the renew interval, 3s (got "+d.String()+")")
	}
}

// A replica that has no controller of a resource, such as one whose manager has an election of its own, is
// not ready, and says so without being asked. It is alive: a restart would not help.
func TestAReplicaThatWorksOnNothingIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		c := minimal()
		c.Logger = zap.New(core)
		r, client := newReplica(t, apisim.NewServer().Client("a").Config(), c)
		ctx, end := context.WithCancel(t.Context())
		begin, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, func(ctx context.Context) error {
				<-begin
				return work(r, client, make(chan string, 10))(ctx)
			}, nil)
		}()
		const idle = "this shard runs no informer of any resource of the ring, and gets no objects: nothing would " +
			"work on them"
		time.Sleep(time.Minute)
		assert.NoError(t, r.Ready(nil))
		time.Sleep(30 * time.Second)
		assert.Equal(t, 1, logs.FilterMessage(idle).Len())
		assert.ErrorContains(t, r.Ready(nil), "shard: configmaps: "+idle)
		assert.NoError(t, r.Alive(nil))
		close(begin)
		time.Sleep(time.Second)
		assert.NoError(t, r.Ready(nil))
		end()
		assert.NoError(t, <-ended)
	})
}

func TestAReplicaIsWhole(t *testing.T) {
	err := (&replica.Replica{}).Run(t.Context(), func(context.Context) error { return nil }, nil)
	assert.EqualError(t, err, "replica: Lease, Shard, Elector and Sharder must not be nil")
}
