package sharder

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// container is a shard whose process dies when it works on an object that is poison. A kubelet restarts
// it. With a supervisor its Lease is then released.
type container struct {
	k          *cluster
	name       string
	supervised bool
	epoch      atomic.Pointer[shardlease.Epoch] // nil: the process does not run
	deaths     atomic.Int32
}

// poison is the name of an object, and its label.
const poison = "poison"

func (k *cluster) container(name string, supervised bool) *container {
	c := &container{k: k, name: name, supervised: supervised}
	k.begin(func(ctx context.Context) {
		for backOff := 10 * time.Second; ; backOff = min(2*backOff, 5*time.Minute) {
			began := time.Now()
			c.live(ctx)
			if time.Since(began) > 10*time.Minute {
				backOff = 10 * time.Second
			}
			if !clock.Sleep(ctx, backOff) {
				return
			}
		}
	})
	return c
}

// live runs the process until it dies.
func (c *container) live(ctx context.Context) {
	k := c.k
	s := &testShard{connection: k.server.Client(c.name)}
	kube, meta := k.clients(s.connection)
	l, err := shardlease.New(kube, shardlease.Config{
		Namespace: testNamespace, Ring: testRing, Identity: c.name, PodUID: "uid of " + c.name, OnLost: func(error) {},
	})
	require.NoError(k.t, err)
	ctx, die := context.WithCancel(ctx)
	defer die()
	_ = l.Run(ctx, func(ctx context.Context) error {
		term, err := l.Term()
		if err != nil {
			return err
		}
		began, epoch := time.Now(), term.Epoch()
		c.epoch.Store(&epoch)
		go k.acknowledge(ctx, s, c.name, meta, epoch)
		c.work(ctx, meta, epoch, func(victim types.UID) {
			s.connection.Sever()
			c.epoch.Store(nil)
			c.deaths.Add(1)
			if c.supervised && time.Since(began) > time.Minute {
				c.release(victim)
			}
			die()
		})
		return ctx.Err()
	})
}

// work has the process die of the first poison that it owns.
func (c *container) work(ctx context.Context, meta metadata.Interface, epoch shardlease.Epoch,
	die func(victim types.UID),
) {
	src := source{
		client: meta.Resource(ringtest.ConfigMaps), page: newPageSize(500), log: zap.NewNop(),
		selector: ringtest.SelectorOf(c.k.t, "poison,"+c.k.keys.Shard+"="+c.name),
		resource: protocol.Resource{Resource: api.Resource{GVR: ringtest.ConfigMaps}},
	}
	src.run(ctx, sink{found: func(o *metav1.PartialObjectMetadata) bool {
		r, ok := c.k.keys.RecordOf(o)
		if ok && r.State == protocol.StateOwned && c.owns(r, epoch) {
			die(o.UID)
		}
		return ctx.Err() == nil
	}})
}

func (c *container) owns(r protocol.Record, epoch shardlease.Epoch) bool {
	return r.Owner() == protocol.OwnerEpoch{Shard: c.name, LeaseUID: epoch.LeaseUID, Epoch: epoch.Number}
}

// release is what the supervisor does.
func (c *container) release(victim types.UID) {
	leases := c.k.kube.CoordinationV1().Leases(testNamespace)
	require.NoError(c.k.t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the sharder may have written it
		l, err := leases.Get(c.k.t.Context(), c.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		released := lease.RecordOf(l).Release(metav1.NowMicro())
		shardrecord.MarkCrash(released, []uint64{shardrecord.DigestOf(victim)}, true)
		_, err = leases.Update(c.k.t.Context(), released, metav1.UpdateOptions{})
		return err
	}))
}

func (k *cluster) createPoison() {
	_, err := k.kube.CoreV1().ConfigMaps("default").Create(k.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: poison, Labels: map[string]string{poison: ""}},
	}, metav1.CreateOptions{})
	require.NoError(k.t, err)
}

// served returns the share of the objects, all but poison, that a running process owns.
func (k *cluster) served(all []*container) float64 {
	objects, served := 0, 0
	for _, o := range k.objects() {
		if o.Name == poison {
			continue
		}
		objects++
		r, ok := k.keys.RecordOf(&o)
		if !ok || r.State != protocol.StateOwned {
			continue
		}
		if slices.ContainsFunc(all, func(c *container) bool {
			epoch := c.epoch.Load()
			return epoch != nil && c.owns(r, *epoch)
		}) {
			served++
		}
	}
	return float64(served) / float64(objects)
}

// An object whose reconciliation ends its process is assigned to one shard after another. It does not
// take the others down with it: in an hour they have a running owner nearly all of the time.
func TestAnObjectThatCrashesItsShardsIsHeldBack(t *testing.T) {
	for name, supervised := range map[string]bool{"supervisor": true, "no supervisor": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, func(t *testing.T, k *cluster) {
				var held, innocent atomic.Int32
				c := k.config()
				c.Logger = zap.NewNop()
				c.Hooks.OnHeldBack = func(h HeldBack) {
					if h.Object.Name == poison {
						held.Add(1)
					} else {
						innocent.Add(1)
					}
				}
				k.sharder(c)
				k.create(100, "p")
				var all []*container
				for _, shard := range []string{"a", "b", "c", "d", "e"} {
					all = append(all, k.container(shard, supervised))
				}
				time.Sleep(2 * time.Minute)
				require.InDelta(t, 1, k.served(all), 0)

				k.createPoison()
				total, deaths, worst := 0.0, int32(0), 1.0
				for range 720 {
					time.Sleep(5 * time.Second)
					served := k.served(all)
					total, worst = total+served, min(worst, served)
				}
				for _, c := range all {
					deaths += c.deaths.Load()
				}
				t.Logf("%s: served %.4f, worst %.2f, %d deaths, held back %d times, others %d", name,
					total/720, worst, deaths, held.Load(), innocent.Load())
				if supervised {
					assert.GreaterOrEqual(t, total/720, 0.97)
				} else {
					assert.GreaterOrEqual(t, total/720, 0.9)
				}
			})
		})
	}
}

// What a process did not work on when it died is not suspected.
func TestOnlyWhatAProcessWorkedOnIsSuspected(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var held []string
		c := k.config()
		c.Hooks.OnHeldBack = func(h HeldBack) { held = append(held, h.Object.Name) }
		k.sharder(c)
		k.create(20, "p")
		for _, shard := range []string{"a", "b", "c"} {
			k.container(shard, true)
		}
		time.Sleep(2 * time.Minute)
		k.createPoison()
		time.Sleep(time.Hour)
		synctest.Wait() // it may be held back again just now
		require.NotEmpty(t, held)
		for _, name := range held {
			require.Equal(t, poison, name)
		}
	})
}

// A shard may be dead before it gets an object. Its end is not counted.
func TestTheEndOfAShardThatWasDeadAlreadyIsNotCounted(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		_, shards := k.settledWith(100, k.config(), "a", "b", "c", "d", "e")
		shards[1].kill()
		time.Sleep(5 * time.Second)
		shards[2].kill()
		time.Sleep(45 * time.Second)
		assert.Contains(t, k.told(), "members [a c d e]")
		k.requirePlaced(100, "a", "d", "e")
	})
}

// A change of an object ends that it is held back, as does the removal of its record.
func TestAChangedObjectIsNotHeldBack(t *testing.T) {
	for name, change := range map[string]func(k *cluster, o *corev1.ConfigMap){
		"a change":              func(_ *cluster, o *corev1.ConfigMap) { o.Data = map[string]string{"changed": "yes"} },
		"removal of the record": func(k *cluster, o *corev1.ConfigMap) { delete(o.Annotations, k.keys.Record) },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				held := make(chan HeldBack, 100)
				c := k.config()
				c.Hooks.OnHeldBack = func(h HeldBack) { held <- h }
				k.sharder(c)
				var all []*container
				for _, shard := range []string{"a", "b", "c", "d"} {
					all = append(all, k.container(shard, true))
				}
				time.Sleep(2 * time.Minute)
				k.createPoison()
				for range 3 {
					<-held
				}
				client := k.kube.CoreV1().ConfigMaps("default")
				o, err := client.Get(t.Context(), poison, metav1.GetOptions{})
				require.NoError(t, err)
				delete(o.Labels, poison)
				change(k, o)
				_, err = client.Update(t.Context(), o, metav1.UpdateOptions{})
				require.NoError(t, err)
				time.Sleep(2 * time.Second)
				o, err = client.Get(t.Context(), poison, metav1.GetOptions{})
				require.NoError(t, err)
				r, ok := k.keys.RecordOf(o)
				require.True(t, ok)
				assert.Nil(t, r.Crashes)
				assert.True(t, slices.ContainsFunc(all, func(c *container) bool {
					epoch := c.epoch.Load()
					return epoch != nil && c.owns(r, *epoch)
				}), "no running process owns it: %+v", r)
			})
		})
	}
}

// The next sharder knows what is held back.
func TestANewSharderHoldsBackWhatTheFormerOneDid(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		held := make(chan HeldBack, 100)
		next := func() HeldBack {
			select {
			case h := <-held:
				return h
			case <-time.After(2 * maxHold):
				require.Fail(t, "nothing is held back")
				return HeldBack{}
			}
		}
		c := k.config()
		c.Hooks.OnHeldBack = func(h HeldBack) { held <- h }
		stop := k.sharder(c)
		var all []*container
		for _, shard := range []string{"a", "b", "c", "d"} {
			all = append(all, k.container(shard, true))
		}
		time.Sleep(2 * time.Minute)
		k.createPoison()
		first := next()
		stop()
		time.Sleep(10 * time.Second)
		k.sharder(c)
		again := next()
		assert.Equal(t, first.Crashes, again.Crashes)
		deaths := func() (n int32) {
			for _, c := range all {
				n += c.deaths.Load()
			}
			return n
		}
		before := deaths()
		time.Sleep(minHold - minHold/4 - 2*time.Second)
		assert.Equal(t, before, deaths())
		assert.Greater(t, next().Crashes, again.Crashes)
	})
}
