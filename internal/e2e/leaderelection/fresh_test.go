package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestNoTermBeginsStale has replicas with warm caches lead in turn. Each writes what the next one
// must see in its first look at the cache. Their watches are late by up to 3 s.
func TestNoTermBeginsStale(t *testing.T) {
	t.Parallel()
	const pairs, turns, maxLag = 20, 5, 3 * time.Second
	for _, c := range []struct {
		name   string
		peer   func(w *warm) peer
		prompt func(context.Context, ...fresh.Cache) error // before the first look
		stale  bool
	}{
		{
			"client-go with warm caches", func(*warm) peer { return clientGo },
			func(context.Context, ...fresh.Cache) error { return nil }, true,
		},
		{"bellwether with fresh caches", func(*warm) peer { return ours }, fresh.Wait, false},
		{"bellwether with fresh caches and guarded clients", (*warm).guarded, fresh.Wait, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stale, all atomic.Int64
			var waited, late sync.Map
			var playing sync.WaitGroup
			for pair := range pairs {
				playing.Go(func() {
					namespace, err := shared.Namespace(t.Context(), "fresh")
					if !assert.NoError(t, err) {
						return
					}
					replicas := []*warm{newWarm(t, namespace), newWarm(t, namespace)}
					var lag, next time.Duration
					for turn := range turns {
						r := replicas[turn%2]
						lag, next = next, rand.N(maxLag) // of what this turn writes
						replicas[(turn+1)%2].lag.Store(int64(next))
						seen, took := r.lead(t, c.peer(r), c.prompt, turn)
						if all.Add(1); seen < turn {
							stale.Add(1)
						}
						if turn > 0 { // nothing is known of the time before the first term
							waited.Store([2]int{pair, turn}, took)
							late.Store([2]int{pair, turn}, lag)
						}
					}
				})
			}
			playing.Wait()
			var most, excess time.Duration
			waited.Range(func(k, v any) bool {
				lag, _ := late.Load(k)
				most, excess = max(most, v.(time.Duration)), max(excess, v.(time.Duration)-lag.(time.Duration))
				return true
			})
			t.Logf("%d of %d terms began stale; waited for %v at most, %v more than the lag", stale.Load(), all.Load(),
				most.Round(time.Millisecond), excess.Round(time.Millisecond))
			assert.EqualValues(t, pairs*turns, all.Load())
			assert.Equal(t, c.stale, stale.Load() > 0)
		})
	}
}

// warm is a replica whose cache of ConfigMaps runs for the life of its process.
type warm struct {
	namespace string
	leases    func(peer) kubernetes.Interface
	client    coreclient.ConfigMapInterface
	writer    coreclient.ConfigMapInterface
	cache     fresh.Cache
	lag       atomic.Int64 // of its watch
}

func newWarm(t *testing.T, namespace string) *warm {
	w := &warm{namespace: namespace, leases: func(p peer) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(p.config(shared.Admin()))
	}}
	config := rest.CopyConfig(shared.Admin())
	config.Wrap(e2e.LateWatches(func() time.Duration { return time.Duration(w.lag.Load()) }))
	w.client = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	w.writer = w.client
	source := fresh.Source(w.client)
	w.cache = fresh.Cache{
		Resource: corev1.Resource("configmaps"), Source: source,
		Informer: cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.cache.Informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	assert.True(t, cache.WaitForCacheSync(ctx.Done(), w.cache.Informer.HasSynced))
	return w
}

// lead leads for one turn. It returns the turn before, as the cache shows it when work begins, and
// how long work had to wait.
func (w *warm) lead(t *testing.T, p peer, prompt func(context.Context, ...fresh.Cache) error, turn int) (seen int,
	waited time.Duration,
) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	worked := make(chan struct{})
	lease := types.NamespacedName{Namespace: w.namespace, Name: "l"}
	err := p.run(ctx, w.leases(p), lease, func(ctx context.Context) {
		defer close(worked)
		defer cancel()
		begin := time.Now()
		if !assert.NoError(t, prompt(ctx, w.cache)) {
			return
		}
		waited = time.Since(begin)
		if o, exists, _ := w.cache.Informer.GetStore().GetByKey(w.namespace + "/c"); exists {
			seen, _ = strconv.Atoi(o.(*corev1.ConfigMap).Data["turn"])
		}
		next := applycorev1.ConfigMap("c", w.namespace).WithData(map[string]string{"turn": strconv.Itoa(turn + 1)})
		_, err := w.writer.Apply(ctx, next, metav1.ApplyOptions{FieldManager: "leader"})
		assert.NoError(t, err)
	})
	assert.NoError(t, err)
	select { // the peer may return before
	case <-worked:
	case <-time.After(patience):
		assert.Fail(t, "work has not begun, or does not end")
	}
	return seen, waited
}

// guarded is ours, with an elector that guards the client that writes.
func (w *warm) guarded() peer {
	p := ours
	p.run = func(
		ctx context.Context, client kubernetes.Interface, lease types.NamespacedName, work func(context.Context),
	) error {
		elector, err := leaderelection.New(client, leaderelection.Config{
			Namespace: lease.Namespace, Name: lease.Name, LeaseDuration: fullDuration, OnLost: func(error) {},
		})
		if err != nil {
			return err
		}
		config := rest.CopyConfig(shared.Admin())
		config.Wrap(elector.WrapTransport)
		w.writer = kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(w.namespace)
		return elector.Run(ctx, func(ctx context.Context) error {
			work(ctx)
			return nil
		})
	}
	return p
}
