package sharder

import (
	"context"
	"net/http"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// strip calls StripLabels in the background. beforePatch, unless nil, is called before each patch,
// with the name of the object.
func (w *world) strip(c Config, beforePatch func(name string)) (result <-chan error, cancel func()) {
	connection := w.server.Client("stripper")
	connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
		if name := path.Base(r.URL.Path); ringtest.IsPatch(r) && name != absentName && beforePatch != nil {
			beforePatch(name)
		}
		return false
	}})
	kube, meta := w.clients(connection, w.proxy)
	s, err := New(kube, meta, ringtest.TestMapper(), c)
	require.NoError(w.t, err)
	done := make(chan error, 1)
	stop := w.begin(func(ctx context.Context) { done <- s.StripLabels(ctx) })
	return done, stop
}

// marked counts the objects that carry anything of the ring.
func (w *world) marked() int {
	marked := 0
	for _, o := range w.objects() {
		if w.keys.CarriesMarks(&o) {
			marked++
		}
	}
	return marked
}

// requirePending fails if StripLabels has returned.
func requirePending(t *testing.T, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		require.Fail(t, "it has returned", "%v", err)
	default:
	}
}

func TestStripLabelsOfAReleasedRingTakesThemAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b")
		shards[0].release()
		shards[1].release()
		stop()
		began := time.Now()
		result, _ := w.strip(w.config(), nil)
		require.NoError(t, <-result)
		assert.Less(t, time.Since(began), time.Second)
		assert.Zero(t, w.marked())
	})
}

func TestStripLabelsWaitsForLivingShards(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b")
		stop()
		result, _ := w.strip(w.config(), nil)
		time.Sleep(10 * time.Minute)
		requirePending(t, result)
		assert.Equal(t, 60, w.marked())
		shards[0].release()
		time.Sleep(10 * time.Minute)
		requirePending(t, result)
		assert.Equal(t, 60, w.marked(), "also of those that lived with an ended shard: one that lives may have had "+
			"them since")
		shards[1].release()
		time.Sleep(time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
	})
}

func TestStripLabelsProvesThatASilentShardIsDead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a", "b")
		stop()
		shards[0].release()
		shards[1].kill()
		result, _ := w.strip(w.config(), nil)
		time.Sleep(26 * time.Second) // it may have renewed just before
		requirePending(t, result)
		assert.Equal(t, 20, w.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
		assert.Contains(t, w.told(), "taken b")
	})
}

func TestStripLabelsDoesNotTakeADeletedLeaseForADeadShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a")
		stop()
		shards[0].kill()
		require.NoError(t,
			w.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		result, _ := w.strip(w.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.Equal(t, 20, w.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
	})
}

// StripLabels waits for shards that may work on an object without a record. Only the ring's history
// names them.
func TestStripLabelsWaitsForThoseWhoMayWorkWithoutARecord(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a")
		stop()
		for _, o := range w.objects() {
			w.strips(&o)
		}
		shards[0].kill()
		require.NoError(t,
			w.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		result, _ := w.strip(w.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
	})
}

// StripLabels waits for shards that only a record names. The ring's history forgets the owners of
// objects that are not selected any more.
func TestStripLabelsWaitsForThoseThatOnlyARecordNames(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.create(1, "o")
		o := w.objects()[0]
		r := protocol.Record{UID: o.UID, Shard: "z", LeaseUID: "gone", Epoch: 3, State: protocol.StateOwned}
		_, err := w.meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(t.Context(), o.Name,
			types.MergePatchType,
			w.keys.MergePatch(o.UID, o.ResourceVersion, "z", false, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		result, _ := w.strip(w.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.Equal(t, 1, w.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
	})
}

func TestStripLabelsStripsObjectsThatAreNotSelectedAnyMore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a")
		stop()
		shards[0].release()
		c := w.config()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "no=object")
		result, _ := w.strip(c, nil)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
	})
}

func TestStripLabelsKeepsChildrenWithTheirRoots(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.create(1, "o")
		root := w.objects()[0]
		r := protocol.Record{UID: root.UID, Shard: "z", LeaseUID: "gone", Epoch: 3, State: protocol.StateOwned}
		_, err := w.meta.Resource(ringtest.ConfigMaps).Namespace(root.Namespace).Patch(t.Context(), root.Name,
			types.MergePatchType,
			w.keys.MergePatch(root.UID, root.ResourceVersion, "z", false, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		pods := w.kube.CoreV1().Pods(root.Namespace)
		_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "child", Labels: map[string]string{w.keys.Shard: "z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: root.Name,
				UID: root.UID, Controller: new(true),
			}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		labelled := func() bool {
			child, err := pods.Get(t.Context(), "child", metav1.GetOptions{})
			require.NoError(t, err)
			return w.keys.ShardOf(child) != ""
		}
		c := w.config()
		c.Resources[0].Children = []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}}
		result, _ := w.strip(c, nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.True(t, labelled(), "somebody may be at work on its root")
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.False(t, labelled())
	})
}

func TestStripLabelsNeverOverwritesWhatHasChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a")
		stop()
		shards[0].release()
		requests, edited := 0, map[string]bool{}
		var mu sync.Mutex
		edit := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			requests++
			if edited[name] {
				return
			}
			edited[name] = true
			_, err := w.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), name,
				types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"edited":"by a user"}}}`), metav1.PatchOptions{})
			assert.NoError(t, err)
		}
		result, _ := w.strip(w.config(), edit)
		require.NoError(t, <-result)
		assert.Zero(t, w.marked())
		assert.Equal(t, 40, requests, "each was refused once")
	})
}

func TestStripLabelsEndsWithItsContext(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, _ := w.settledWith(20, w.config(), "a")
		stop()
		result, cancel := w.strip(w.config(), nil)
		time.Sleep(time.Minute)
		cancel()
		assert.Equal(t, context.Canceled, <-result,
			"and nothing but that, so that an elector takes it for the end of its work")
		assert.Equal(t, 20, w.marked())
	})
}

func TestStripLabelsBesideRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		kube, meta := w.clients(w.server.Client("sharder"))
		s, err := New(kube, meta, ringtest.TestMapper(), w.config())
		require.NoError(t, err)
		w.begin(func(ctx context.Context) { _ = s.Run(ctx) })
		synctest.Wait()
		assert.ErrorIs(t, s.StripLabels(t.Context()), ErrBusy)
	})
}

// StripLabels does not wait for an epoch that has never begun. A record that names it is forged.
func TestStripLabelsDoesNotWaitForAnEpochThatHasNeverBeen(t *testing.T) {
	for name, begins := range map[string]bool{"": false, "it begins meanwhile, and is waited for": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				stop, shards := w.settledWith(20, w.config(), "a", "b")
				stop()
				shards[0].release()
				shards[1].release()
				time.Sleep(time.Second)
				l, err := w.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
				require.NoError(t, err)
				o := w.objects()[7]
				forged := &protocol.Record{
					UID: o.UID, Shard: "b", LeaseUID: l.UID, Epoch: 2,
					State: protocol.StateOwned,
				}
				_, err = w.meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(t.Context(), o.Name,
					types.MergePatchType,
					w.keys.MergePatch(o.UID, "", "b", false, forged), metav1.PatchOptions{})
				require.NoError(t, err)

				var once sync.Once
				read, begun := make(chan struct{}), make(chan struct{})
				result, _ := w.strip(w.config(), func(name string) {
					if begins && name == o.Name {
						once.Do(func() { close(read) })
						<-begun
					}
				})
				var b *testShard
				if begins {
					<-read
					b = w.shard("b")
					time.Sleep(time.Second)
					close(begun)
				}
				time.Sleep(time.Minute)
				if begins {
					requirePending(t, result)
					b.release()
					time.Sleep(time.Second)
				}
				synctest.Wait()
				select {
				case err := <-result:
					require.NoError(t, err)
				default:
					require.Fail(t, "it waits for ever")
				}
				assert.Zero(t, w.marked())
			})
		})
	}
}
