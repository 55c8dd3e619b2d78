package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// Two shards work on a few objects all the time. Each has two caches that lag. Meanwhile the
// objects move between them, a user edits labels, and answers get lost. The shards are never at
// work on one object together, and nothing is written to an object for a shard that does not own
// it. The copy that a shard works on has all that the other one has written. When the faults are
// over, every object is worked on again.
func TestNoTwoShardsWorkOnOneObject(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { contend(t, seed) })
		})
	}
}

// contest watches the two shards.
type contest struct {
	*cluster
	random *rand.Rand // guarded by mu

	mu     sync.Mutex
	atWork map[string]map[string]int // object -> shard -> how much work
	works  map[string]int            // how much work was done on an object
	writes map[string]written        // the last one to an object
}

// written is what work has written.
type written struct{ shard, version string }

// connections has the clients of a shard: one for the shard and a cache, one for a cache that lags
// far behind, and one for work.
type connections struct{ own, slow, hands *apisim.Client }

func (c *contest) chance(n int) bool { return c.number(n) == 0 }

func (c *contest) number(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func contend(t *testing.T, seed uint64) {
	c := &contest{
		cluster: newCluster(t), random: rand.New(rand.NewPCG(seed, 1)),
		atWork: map[string]map[string]int{}, works: map[string]int{}, writes: map[string]written{},
	}
	c.server.Observe(func(change apisim.Change) {
		if change.Before == nil || change.After == nil ||
			reflect.DeepEqual(change.Before.Content()["data"], change.After.Content()["data"]) {
			return
		}
		before, ok := c.keys.RecordOf(change.Before)
		assert.True(
			t, ok && before.State == protocol.StateOwned && before.Shard == change.Client, "%s writes to %s of %v",
			change.Client, change.After.GetName(), before,
		)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.writes[change.After.GetName()] = written{change.Client, change.After.GetResourceVersion()}
	})
	objects := []string{"u", "v", "w", "x", "y", "z"}
	for _, name := range objects {
		c.create(name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	shards, conns := map[string]*replica{}, map[string]connections{}
	for _, identity := range []string{"a", "b"} {
		r := c.replicaOf(identity, nil, Config{AckGrace: 2 * time.Second})
		slow, hands := c.server.Client(identity+"-slow"), c.server.Client(identity) // the writes of hands come late
		conns[identity] = connections{r.conn, slow, hands}
		shards[identity] = r
		running.Go(func() {
			assert.NoError(t, r.lease.Run(ctx, func(ctx context.Context) error {
				r.ctx = ctx
				own := r.conn
				r.conn = hands
				client := r.client()
				r.conn = own
				for i := range 2 {
					if i == 1 {
						r.conn = slow
					}
					informer := r.start()
					for range 2 {
						r.running.Go(func() { c.labour(r, identity, client.CoreV1().ConfigMaps("default"), informer) })
					}
				}
				r.running.Wait()
				return nil
			}))
		})
	}
	time.Sleep(time.Second)
	faults := func() {
		upTo := func(d time.Duration) time.Duration { return time.Duration(c.number(int(d))) }
		for _, shard := range []string{"a", "b"} {
			odds := 2 + c.number(8)
			lose := func(q *http.Request) bool { return q.Method != http.MethodGet && c.chance(odds) }
			conns[shard].own.Inject(
				apisim.Faults{
					Latency: upTo(time.Second), WatchLag: upTo(5 * time.Second), LoseResponse: lose,
					LoseRequest: lose,
				},
			)
			conns[shard].slow.Inject(apisim.Faults{WatchLag: upTo(30 * time.Second)})
			conns[shard].hands.Inject(apisim.Faults{Latency: upTo(2500 * time.Millisecond), LoseResponse: lose})
		}
	}
	for range 600 { // for a minute and more
		if c.chance(50) {
			faults()
		}
		c.move(objects[c.number(len(objects))], shards)
		time.Sleep(time.Duration(c.number(300)) * time.Millisecond)
	}
	for _, shard := range conns {
		for _, conn := range []*apisim.Client{shard.own, shard.slow, shard.hands} {
			conn.Inject(apisim.Faults{})
		}
	}
	for range 100 { // until every object has a shard, and no drain
		for _, name := range objects {
			c.place(name, shards)
		}
		time.Sleep(time.Second)
	}
	c.mu.Lock()
	before := c.works
	c.works = map[string]int{}
	c.mu.Unlock()
	time.Sleep(time.Minute)
	c.mu.Lock()
	for _, name := range objects {
		assert.NotZero(t, c.works[name], "%s at the end: %v", name, c.works)
		assert.Greater(t, before[name], 20, "the test is about something")
	}
	c.mu.Unlock()
	cancel()
	running.Wait()
}

// labour works on the objects that a cache shows.
func (c *contest) labour(
	r *replica, shard string, objects corev1client.ConfigMapInterface, informer cache.SharedIndexInformer,
) {
	for r.ctx.Err() == nil {
		for _, item := range informer.GetStore().List() {
			o := item.(*corev1.ConfigMap).DeepCopy()
			if c.chance(3) { // the copy gets old before work begins
				pause(r.ctx, time.Duration(c.number(3000))*time.Millisecond)
			}
			_ = r.shard.Do(r.ctx, o, func(ctx context.Context) error {
				c.begin(o, shard)
				defer c.end(o.Name, shard)
				pause(ctx, time.Duration(c.number(1+c.number(4000)))*time.Millisecond)
				if c.chance(3) {
					ctx, cancel := context.WithTimeout(ctx, time.Duration(c.number(1500))*time.Millisecond)
					defer cancel()
					// Without a precondition, so that a late write is detected.
					_, _ = objects.Patch(
						ctx, o.Name, types.MergePatchType,
						fmt.Appendf(nil, `{"data":{"by":"%s %d"}}`, shard, c.number(1000000)),
						metav1.PatchOptions{},
					)
				}
				return nil
			})
		}
		pause(r.ctx, time.Duration(50+c.number(100))*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *contest) begin(o *corev1.ConfigMap, shard string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := o.Name
	if last := c.writes[name]; last.shard != shard {
		assert.True(c.t, protocol.Reaches(o.ResourceVersion, last.version), "%s begins stale: %s at version %s of %v",
			shard, name, o.ResourceVersion, last)
	}
	if c.atWork[name] == nil {
		c.atWork[name] = map[string]int{}
	}
	c.atWork[name][shard]++
	c.works[name]++
	for other, works := range c.atWork[name] {
		if other != shard && works > 0 {
			assert.Fail(c.t, "two at work", "%s and %s on %s", shard, other, name)
		}
	}
}

func (c *contest) end(name, shard string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.atWork[name][shard]--
}

// move changes an object as a sharder of an unstable ring, or a user, might.
func (c *contest) move(name string, shards map[string]*replica) {
	o := c.get(name)
	r, ok := c.keys.RecordOf(o)
	if ok && r.State == protocol.StateOwned && r.Shard == o.Labels[c.keys.Shard] {
		switch c.number(8) {
		case 0:
			c.write(o, "", false, nil) // a user removes the label
		case 1:
			c.write(o, []string{"a", "b", "no-shard"}[c.number(3)], c.chance(2), nil) // or sets it
		case 2, 3:
			c.write(o, r.Shard, !c.keys.Draining(o), nil)
		}
		return
	}
	c.place(name, shards)
}

// place applies the sharder's rule for a root, with a coin instead of a hash ring.
func (c *contest) place(name string, shards map[string]*replica) {
	o := c.get(name)
	r, ok := c.keys.RecordOf(o)
	switch {
	case !ok || r.State == protocol.StateFree:
		target := []string{"a", "b"}[c.number(2)]
		c.write(o, target, false, shards[target].ownedBy(target, o))
	case o.Labels[c.keys.Shard] != r.Shard:
		c.write(o, r.Shard, c.chance(2), nil)
	case c.keys.Draining(o) && c.chance(10):
		c.write(o, r.Shard, false, nil)
	}
}

func (c *contest) write(o *corev1.ConfigMap, shard string, drained bool, r *protocol.Record) {
	_, err := c.admin.CoreV1().ConfigMaps("default").Patch(c.t.Context(), o.Name, types.MergePatchType,
		c.keys.MergePatch(o.UID, o.ResourceVersion, shard, drained, r), metav1.PatchOptions{})
	require.NoError(c.t, err)
}
