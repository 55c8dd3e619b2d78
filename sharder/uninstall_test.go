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
func (k *cluster) strip(c Config, beforePatch func(name string)) (result <-chan error, cancel func()) {
	connection := k.server.Client("stripper")
	connection.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
		if name := path.Base(r.URL.Path); ringtest.IsPatch(r) && name != absentName && beforePatch != nil {
			beforePatch(name)
		}
		return false
	}})
	kube, meta := k.clients(connection, k.proxy)
	s, err := New(kube, meta, ringtest.TestMapper(), c)
	require.NoError(k.t, err)
	done := make(chan error, 1)
	stop := k.begin(func(ctx context.Context) { done <- s.StripLabels(ctx) })
	return done, stop
}

// marked counts the objects that carry anything of the ring.
func (k *cluster) marked() int {
	marked := 0
	for _, o := range k.objects() {
		if k.keys.CarriesMarks(&o) {
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
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		shards[0].release()
		shards[1].release()
		stop()
		began := time.Now()
		result, _ := k.strip(k.config(), nil)
		require.NoError(t, <-result)
		assert.Less(t, time.Since(began), time.Second)
		assert.Zero(t, k.marked())
	})
}

func TestStripLabelsWaitsForLivingShards(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		stop()
		result, _ := k.strip(k.config(), nil)
		time.Sleep(10 * time.Minute)
		requirePending(t, result)
		assert.Equal(t, 60, k.marked())
		shards[0].release()
		time.Sleep(10 * time.Minute)
		requirePending(t, result)
		assert.Equal(t, 60, k.marked(), "also of those that lived with an ended shard: one that lives may have had "+
			"them since")
		shards[1].release()
		time.Sleep(time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
	})
}

func TestStripLabelsProvesThatASilentShardIsDead(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a", "b")
		stop()
		shards[0].release()
		shards[1].kill()
		result, _ := k.strip(k.config(), nil)
		time.Sleep(26 * time.Second) // it may have renewed just before
		requirePending(t, result)
		assert.Equal(t, 20, k.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
		assert.Contains(t, k.told(), "taken b")
	})
}

func TestStripLabelsDoesNotTakeADeletedLeaseForADeadShard(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a")
		stop()
		shards[0].kill()
		require.NoError(t,
			k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		result, _ := k.strip(k.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.Equal(t, 20, k.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
	})
}

// StripLabels waits for shards that may work on an object without a record. Only the ring's history
// names them.
func TestStripLabelsWaitsForThoseWhoMayWorkWithoutARecord(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a")
		stop()
		for _, o := range k.objects() {
			k.strips(&o)
		}
		shards[0].kill()
		require.NoError(t,
			k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		result, _ := k.strip(k.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
	})
}

// StripLabels waits for shards that only a record names. The ring's history forgets the owners of
// objects that are not selected any more.
func TestStripLabelsWaitsForThoseThatOnlyARecordNames(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.create(1, "o")
		o := k.objects()[0]
		r := protocol.Record{UID: o.UID, Shard: "z", LeaseUID: "gone", Epoch: 3, State: protocol.StateOwned}
		_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(t.Context(), o.Name,
			types.MergePatchType,
			k.keys.MergePatch(o.UID, o.ResourceVersion, "z", false, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		result, _ := k.strip(k.config(), nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.Equal(t, 1, k.marked())
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
	})
}

func TestStripLabelsStripsObjectsThatAreNotSelectedAnyMore(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a")
		stop()
		shards[0].release()
		c := k.config()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "no=object")
		result, _ := k.strip(c, nil)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
	})
}

func TestStripLabelsKeepsChildrenWithTheirRoots(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.create(1, "o")
		root := k.objects()[0]
		r := protocol.Record{UID: root.UID, Shard: "z", LeaseUID: "gone", Epoch: 3, State: protocol.StateOwned}
		_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace(root.Namespace).Patch(t.Context(), root.Name,
			types.MergePatchType,
			k.keys.MergePatch(root.UID, root.ResourceVersion, "z", false, &r), metav1.PatchOptions{})
		require.NoError(t, err)
		pods := k.kube.CoreV1().Pods(root.Namespace)
		_, err = pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "child", Labels: map[string]string{k.keys.Shard: "z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: root.Name,
				UID: root.UID, Controller: new(true),
			}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		labelled := func() bool {
			child, err := pods.Get(t.Context(), "child", metav1.GetOptions{})
			require.NoError(t, err)
			return k.keys.ShardOf(child) != ""
		}
		c := k.config()
		c.Resources[0].Children = []schema.GroupVersionResource{{Version: "v1", Resource: "pods"}}
		result, _ := k.strip(c, nil)
		time.Sleep(29 * time.Second)
		requirePending(t, result)
		assert.True(t, labelled(), "somebody may be at work on its root")
		time.Sleep(10 * time.Second)
		require.NoError(t, <-result)
		assert.False(t, labelled())
	})
}

func TestStripLabelsNeverOverwritesWhatHasChanged(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a")
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
			_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), name,
				types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"edited":"by a user"}}}`), metav1.PatchOptions{})
			assert.NoError(t, err)
		}
		result, _ := k.strip(k.config(), edit)
		require.NoError(t, <-result)
		assert.Zero(t, k.marked())
		assert.Equal(t, 40, requests, "each was refused once")
	})
}

func TestStripLabelsEndsWithItsContext(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(20, k.config(), "a")
		stop()
		result, cancel := k.strip(k.config(), nil)
		time.Sleep(time.Minute)
		cancel()
		assert.Equal(t, context.Canceled, <-result,
			"and nothing but that, so that an elector takes it for the end of its work")
		assert.Equal(t, 20, k.marked())
	})
}

func TestStripLabelsBesideRun(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		kube, meta := k.clients(k.server.Client("sharder"))
		s, err := New(kube, meta, ringtest.TestMapper(), k.config())
		require.NoError(t, err)
		k.begin(func(ctx context.Context) { _ = s.Run(ctx) })
		synctest.Wait()
		assert.ErrorIs(t, s.StripLabels(t.Context()), ErrBusy)
	})
}

// StripLabels does not wait for an epoch that has never begun. A record that names it is forged.
func TestStripLabelsDoesNotWaitForAnEpochThatHasNeverBeen(t *testing.T) {
	for name, begins := range map[string]bool{"": false, "it begins meanwhile, and is waited for": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				stop, shards := k.settledWith(20, k.config(), "a", "b")
				stop()
				shards[0].release()
				shards[1].release()
				time.Sleep(time.Second)
				l, err := k.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
				require.NoError(t, err)
				o := k.objects()[7]
				forged := &protocol.Record{
					UID: o.UID, Shard: "b", LeaseUID: l.UID, Epoch: 2,
					State: protocol.StateOwned,
				}
				_, err = k.meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(t.Context(), o.Name,
					types.MergePatchType,
					k.keys.MergePatch(o.UID, "", "b", false, forged), metav1.PatchOptions{})
				require.NoError(t, err)

				var once sync.Once
				read, begun := make(chan struct{}), make(chan struct{})
				result, _ := k.strip(k.config(), func(name string) {
					if begins && name == o.Name {
						once.Do(func() { close(read) })
						<-begun
					}
				})
				var b *testShard
				if begins {
					<-read
					b = k.shard("b")
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
				assert.Zero(t, k.marked())
			})
		})
	}
}
