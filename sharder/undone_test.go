package sharder

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

const undoneMessage = "labels or annotations of the ring are removed as often as they are set; the next attempt waits"

// operator is a reconciler in every shard that gives each object that its shard sees new metadata.
type operator struct {
	puts atomic.Int64
	wipe func(*metav1.ObjectMeta)
}

// setsLabels drops all labels but its own.
func setsLabels(o *metav1.ObjectMeta) { o.Labels = map[string]string{"app": "mine"} }

// operate runs the operator on the objects of a resource that are with shards.
func (k *cluster) operate(o *operator, gvr schema.GroupVersionResource) (stop func()) {
	connection := k.server.Client("operator")
	connection.Inject(apisim.Faults{Latency: 5 * time.Millisecond})
	kube, meta := k.clients(connection)
	src := source{
		client: meta.Resource(gvr), selector: with(labels.Everything(), k.keys.Shard, selection.Exists),
		page: newPageSize(500), log: zap.NewNop(), resource: protocol.Resource{},
	}
	src.resource.GVR = gvr
	return k.begin(func(ctx context.Context) {
		src.run(ctx, sink{found: func(seen *metav1.PartialObjectMetadata) bool {
			var err error
			switch gvr {
			case ringtest.ConfigMaps:
				m, getErr := kube.CoreV1().ConfigMaps(seen.Namespace).Get(ctx, seen.Name, metav1.GetOptions{})
				if getErr != nil || k.keys.ShardOf(m) == "" {
					return ctx.Err() == nil
				}
				o.wipe(&m.ObjectMeta)
				_, err = kube.CoreV1().ConfigMaps(seen.Namespace).Update(ctx, m, metav1.UpdateOptions{})
			case ringtest.Pods:
				p, getErr := kube.CoreV1().Pods(seen.Namespace).Get(ctx, seen.Name, metav1.GetOptions{})
				if getErr != nil || k.keys.ShardOf(p) == "" {
					return ctx.Err() == nil
				}
				o.wipe(&p.ObjectMeta)
				_, err = kube.CoreV1().Pods(seen.Namespace).Update(ctx, p, metav1.UpdateOptions{})
			}
			if err == nil {
				o.puts.Add(1)
			}
			return ctx.Err() == nil
		}})
	})
}

// undone has what a sharder says about labels that are removed again and again.
type undone struct {
	mu       sync.Mutex
	all      []Undone
	recorder *events.FakeRecorder
	logs     *observer.ObservedLogs
}

func (u *undone) watched(c Config) Config {
	u.recorder = events.NewFakeRecorder(1000)
	core, logs := observer.New(zap.WarnLevel)
	u.logs, c.Events, c.Logger = logs, u.recorder, zap.New(core)
	c.Hooks.OnUndone = func(v Undone) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.all = append(u.all, v)
	}
	return c
}

// requireReported fails unless each of n objects was reported with growing pauses, and the first ones in
// the log and by Events.
func (u *undone) requireReported(t *testing.T, n int) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	last := map[string]Undone{}
	for _, v := range u.all {
		assert.Greater(t, v.Pause, last[v.Object.Name].Pause)
		assert.Greater(t, v.Times, last[v.Object.Name].Times)
		last[v.Object.Name] = v
	}
	require.Len(t, last, n)
	assert.LessOrEqual(t, len(u.all), n*10)
	said := u.logs.FilterMessage(undoneMessage).All()
	require.NotEmpty(t, said)
	assert.EqualValues(t, 3, said[0].ContextMap()["times"])
	var recorded []string
	for range len(u.recorder.Events) {
		if event := <-u.recorder.Events; !strings.Contains(event, "Warning Unowned") { // in the longest pauses
			recorded = append(recorded, event)
		}
	}
	require.Len(t, recorded, len(said), "the log and the Events say the same")
	assert.Contains(t, recorded[0], "Warning LabelsRemoved ring r: the labels or annotations of the ring were set on "+
		"this object 3 times and removed again; the next attempt waits 1s. What writes this object has to keep all "+
		"keys with bellwether.dev")
}

// A reconciler that sets all labels of its objects, and so drops those of the ring, and the sharder
// undo each other ever more rarely, and the sharder says so. Once the reconciler is mended, all objects
// are with their owners.
func TestLabelsThatAreRemovedAgainAndAgainAreSetEverMoreRarely(t *testing.T) {
	for name, wipe := range map[string]func(*metav1.ObjectMeta){
		"labels":                 setsLabels,
		"annotations":            func(o *metav1.ObjectMeta) { o.Annotations = nil },
		"labels and annotations": func(o *metav1.ObjectMeta) { o.Labels, o.Annotations = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				var u undone
				c := u.watched(k.config())
				c.WatchAll = name == "annotations" // otherwise the shard sends the object back
				stop, _ := k.settledWith(10, c, "a", "b")
				defer stop()
				time.Sleep(time.Minute)
				o := &operator{wipe: wipe}
				mended := k.operate(o, ringtest.ConfigMaps)
				time.Sleep(10 * time.Minute)
				patched := 0
				for _, n := range k.patched() {
					patched += n
				}
				assert.LessOrEqual(t, patched, 10*14)
				assert.GreaterOrEqual(t, patched, 10*8, "the objects are worked on, if ever more rarely")
				assert.LessOrEqual(t, o.puts.Load(), int64(10*28), "the annotations too after an event of its own")
				mended()
				u.requireReported(t, 10)
				time.Sleep(maxUndonePause + time.Second)
				k.requirePlaced(10, "a", "b")
			})
		})
	}
}

// A reconciler that sets all labels of its children, and so drops the stamp, has them back ever more
// rarely, too. Children that keep theirs do not wait.
func TestStampsThatAreRemovedAgainAndAgainAreSetEverMoreRarely(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var u undone
		stop, _ := k.settledWith(10, u.watched(k.familyConfig()), "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(time.Minute)
		o := &operator{wipe: setsLabels}
		mended := k.operate(o, ringtest.Pods)
		time.Sleep(10 * time.Minute)
		patched := k.patched()["follow"]
		assert.LessOrEqual(t, patched, 10*14)
		assert.GreaterOrEqual(t, patched, 10*8)
		mended()
		u.requireReported(t, 10)
		k.bear(1, false)
		time.Sleep(time.Second)
		assert.Equal(t, 10, k.patched()["follow"])
		time.Sleep(maxUndonePause)
		k.requireFamilies(2)
	})
}

// Three repairs in two minutes are as quick as any, and so are those of edits that come now and then, however
// many these are.
func TestEditsNowAndThenAreRepairedAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var u undone
		stop, _ := k.settledWith(10, u.watched(k.config()), "a", "b")
		defer stop()
		for range 20 {
			time.Sleep(2 * time.Minute)
			for range 3 {
				o := k.objects()[0]
				k.strips(&o)
				time.Sleep(time.Second)
				k.requirePlaced(10, "a", "b")
			}
		}
		for range 30 {
			time.Sleep(39 * time.Second)
			o := k.objects()[0]
			k.strips(&o)
			time.Sleep(time.Second)
			k.requirePlaced(10, "a", "b")
		}
		for range 10 {
			time.Sleep(5 * time.Minute)
			for range 2 {
				o := k.objects()[0]
				k.strips(&o)
				time.Sleep(100 * time.Millisecond)
			}
		}
		assert.Empty(t, u.all)
	})
}

// What is known of repairs is bounded. Objects beyond that are repaired at once.
func TestRepairsAreBounded(t *testing.T) {
	u, now := newRepairs(nil), time.Now()
	repaired := func(name string, uid types.UID, times int) {
		for range times {
			u.repaired(protocol.Ref{Name: name}, uid, now)
		}
	}
	wait := func(name string, uid types.UID) time.Duration {
		wait, _, _ := u.wait(protocol.Ref{Name: name}, uid, now)
		return wait
	}
	repaired("first", "1", maxUndone)
	for i := range maxRepaired {
		repaired(fmt.Sprint(i), "1", 1)
	}
	assert.Len(t, u.known, maxRepaired)
	repaired("beyond", "1", maxUndone)
	assert.Zero(t, wait("beyond", "1"))
	assert.Equal(t, minUndonePause, wait("first", "1"))
	assert.Zero(t, wait("first", "2"), "another object of that name")

	now = now.Add(undoneWithin + minUndonePause + 1)
	repaired("beyond", "1", maxUndone)
	assert.Len(t, u.known, 1, "those that have their marks for long are forgotten")
	assert.Equal(t, minUndonePause, wait("beyond", "1"))
	repaired("beyond", "2", 1)
	assert.Zero(t, wait("beyond", "2"))
}

// An object that is held is not worked on before its time, whatever is offered, and others do not wait
// for it.
func TestAHeldObjectWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, now := newQueue(10, 4), time.Now()
		o := protocol.Root{Ref: protocol.Ref{Name: "o"}}
		require.True(t, q.offer(t.Context(), o, nil, false))
		i, _, _ := q.take(t.Context(), false)
		require.True(t, q.hold(i, heldError{until: now.Add(time.Minute)}))
		assert.Zero(t, q.busy())
		require.True(t, q.offer(t.Context(), o, nil, false))
		assert.True(t, q.waits(o.Ref))
		i, _, _ = q.take(t.Context(), false)
		require.NotNil(t, i)
		assert.Equal(t, now.Add(time.Minute), time.Now())
		assert.Equal(t, 1, q.busy())
		q.done(i, true)
		assert.Zero(t, q.len())
	})
}
