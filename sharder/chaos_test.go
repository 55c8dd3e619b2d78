package sharder

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// referee sees every change on the server. It records a foul when an object is given to a shard
// while another shard may be at work on it.
type referee struct {
	keys    protocol.Keys
	owners  map[types.UID]protocol.OwnerEpoch // the owner that may be at work on an object
	past    map[types.UID]int64               // the last epoch of a Lease that is over
	gone    map[types.UID]time.Time           // when a Lease was deleted
	foul    []string
	handles int // how often an object was given to a shard
}

func (r *referee) over(t protocol.OwnerEpoch) bool {
	if r.past[t.LeaseUID] >= t.Epoch {
		return true
	}
	since, gone := r.gone[t.LeaseUID]
	return gone && time.Since(since) >= 15*time.Second
}

// lease records which epochs of a Lease are over.
func (r *referee) lease(l *coordinationv1.Lease) {
	e, _ := shardlease.EpochOf(l)
	if record := lease.RecordOf(l); !record.Released() && record.Holder() != shardlease.Sharder {
		e.Number--
	}
	r.past[l.UID] = max(r.past[l.UID], e.Number)
}

func (r *referee) see(c apisim.Change) {
	o := c.After
	if o == nil {
		o = c.Before
	}
	switch o.GetKind() {
	case "Lease":
		if c.After == nil {
			r.gone[c.Before.GetUID()] = time.Now()
			return
		}
		l := &coordinationv1.Lease{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.After.Content(), l); err != nil {
			panic(err)
		}
		r.lease(l)
	case "ConfigMap":
		if c.After != nil {
			r.judge(c.Client, c.Before, c.After)
		}
	}
}

func (r *referee) judge(client string, last, o *apisim.Object) {
	rec, ok := r.keys.RecordOf(o)
	if !ok {
		return
	}
	now := rec.Owner()
	before, known := r.owners[o.GetUID()]
	switch {
	case rec.State == protocol.StateFree:
		if known && before == now && client == now.Shard {
			delete(r.owners, o.GetUID())
		}
	case r.keys.Draining(o) || r.keys.ShardOf(o) != now.Shard:
	case known && before != now && client == before.Shard && r.bequeathed(last, before, now): // by its owner
		r.handles++
		r.owners[o.GetUID()] = now
	case known && before != now && !r.over(before):
		r.foul = append(r.foul,
			fmt.Sprintf("%v %s: %v has %s, and %v may be at work", time.Now().Format(time.TimeOnly), client, now,
				o.GetName(), before))
	default:
		r.handles++
		r.owners[o.GetUID()] = now
	}
}

// bequeathed reports whether the owner of an object had been asked to give it to that successor.
func (r *referee) bequeathed(o *apisim.Object, by, to protocol.OwnerEpoch) bool {
	if o == nil {
		return false
	}
	rec, ok := r.keys.RecordOf(o)
	return ok && rec.Owner() == by && rec.State == protocol.StateOwned && r.keys.Draining(o) && rec.Next != nil &&
		*rec.Next == to
}

// No shard gets an object that another shard may work on. Shards start, release their Leases, die,
// and hold on to objects. A user edits objects and deletes Leases. The sharder is slow and
// restarts. In the end every object has an owner.
func TestNoShardGetsWhatAnotherMayWorkOn(t *testing.T) {
	const schedules = 8
	for seed := range uint64(schedules) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) { chaos(t, k, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func chaos(t *testing.T, k *cluster, random *rand.Rand) {
	r := &referee{
		keys: k.keys, owners: map[types.UID]protocol.OwnerEpoch{}, past: map[types.UID]int64{},
		gone: map[types.UID]time.Time{},
	}
	k.server.Observe(r.see)
	c := k.config()
	c.ScanInterval, c.MaxDrains, c.PageSize, c.GCPeriod = 30*time.Second, 4, 5, 2*time.Minute
	note := func(format string, args ...any) { // shown if the schedule fails
		t.Logf("%v %s", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
	}
	shards := map[string]*testShard{}
	stop := func() {}
	k.create(12, "o")
	pause := func() { time.Sleep(time.Duration(random.Int64N(int64(20 * time.Second)))) }
	for range 25 {
		name := string(rune('a' + random.IntN(3)))
		s := shards[name]
		switch random.IntN(10) {
		case 0, 1:
			if s == nil {
				note("shard %s starts", name)
				shards[name] = k.shard(name)
			}
		case 2:
			if s != nil {
				note("shard %s releases", name)
				stubborn(false, s)
				s.release()
				delete(shards, name)
			}
		case 3:
			if s != nil {
				note("shard %s dies", name)
				s.kill()
				delete(shards, name)
			}
		case 4:
			if s != nil {
				note("shard %s stubborn", name)
				stubborn(random.IntN(2) == 0, s)
			}
		case 5:
			note("sharder restarts")
			stop()
			stop = k.sharder(c)
		case 6:
			note("sharder is slow")
			if k.connection != nil {
				k.connection.Inject(apisim.Faults{
					Latency:  time.Duration(random.IntN(300)) * time.Millisecond,
					WatchLag: time.Duration(random.IntN(3000)) * time.Millisecond,
				})
			}
		case 7, 8:
			object := fmt.Sprintf("o-%03d", random.IntN(12))
			edits := []string{
				`{"labels":null,"annotations":null}`, `{"labels":{"` + k.keys.Shard + `":null}}`,
				`{"labels":{"` + k.keys.Shard + `":"` + name + `"}}`,
				`{"labels":{"` + k.keys.Shard + `":"x"}}`, `{"labels":{"` + k.keys.Drain + `":"x"}}`,
				`{"labels":{"` + k.keys.Drain + `":null}}`,
				`{"annotations":{"` + k.keys.Record + `":null}}`,
				`{"labels":{"` + k.keys.Shard + `":"` + name + `","` + k.keys.Drain + `":null},"annotations":{"` +
					k.keys.Record + `":null}}`,
			}
			edit := edits[random.IntN(len(edits))]
			note("edit %s %s", object, edit)
			k.edit(object, `{"metadata":`+edit+`}`)
		case 9:
			if random.IntN(3) == 0 {
				note("Lease of %s deleted", name)
				_ = k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), name, metav1.DeleteOptions{})
			}
		}
		if random.IntN(3) > 0 {
			pause()
		}
	}
	stop()
	defer k.sharder(c)()
	for _, s := range shards {
		stubborn(false, s)
	}
	if len(shards) == 0 {
		k.shard("a")
	}
	time.Sleep(5 * time.Minute)
	assert.Empty(t, r.foul)
	require.Zero(t, k.owners()["-"], "%v", k.owners())
	m, err := k.kube.CoreV1().ConfigMaps(testNamespace).Get(t.Context(), HistoryName(testRing), metav1.GetOptions{})
	require.NoError(t, err)
	h, err := protocol.ParseHistory(m.Data[historyKey])
	require.NoError(t, err)
	assert.Len(t, h.Memberships, 1, "settled")
	require.Positive(t, r.handles)
}
