package shard

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// families returns ConfigMaps and Nodes with Pods as children.
func families() []api.Resource {
	return []api.Resource{
		{GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Pods}},
		{GVR: ringtest.Nodes, Children: []schema.GroupVersionResource{ringtest.Pods}},
	}
}

// podOf returns a child that is about to be created.
func podOf(root *corev1.ConfigMap, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: root.Namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		},
	}}
}

// bear creates a child, with the label of a shard unless that is empty.
func (w *cluster) bear(root *corev1.ConfigMap, name, shard string) *corev1.Pod {
	pod := podOf(root, name)
	if shard != "" {
		pod.Labels = map[string]string{w.keys.Shard: shard}
	}
	pod, err := w.admin.CoreV1().Pods(root.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(w.t, err)
	synctest.Wait()
	return pod
}

func (w *cluster) pod(name string) *corev1.Pod {
	pod, err := w.admin.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return pod
}

func (w *cluster) label(name, shard string) *corev1.Pod {
	pod, err := w.admin.CoreV1().Pods("default").Patch(
		w.t.Context(), name, types.MergePatchType, w.keys.MergePatch("", "", shard, false, nil), metav1.PatchOptions{},
	)
	require.NoError(w.t, err)
	synctest.Wait()
	return pod
}

// children makes an informer of children that has a connection of its own.
func (r *replica) children() (*apisim.Client, cache.SharedIndexInformer) {
	conn := r.conn
	defer func() { r.conn = conn }()
	r.conn = r.server.Client("a-children")
	client := r.client()
	return r.conn, r.shard.NewInformer(
		ListerWatcher(client.CoreV1().Pods(""), client), &corev1.Pod{}, 0, cache.Indexers{})
}

// raise runs an informer of children whose watch events arrive with this delay.
func (r *replica) raise(lag time.Duration) cache.SharedIndexInformer {
	conn, informer := r.children()
	r.running.Go(func() { informer.RunWithContext(r.ctx) })
	require.True(r.t, cache.WaitForCacheSync(r.ctx.Done(), informer.HasSynced))
	conn.Inject(apisim.Faults{WatchLag: lag})
	return informer
}

func (r *replica) doFor(o Object) error {
	return r.shard.Do(r.ctx, o, func(context.Context) error { return nil })
}

func inFamily(t *testing.T, f func(t *testing.T, r *replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.replica(Config{Resources: families()}).run(func(r *replica) { f(t, r) }))
	})
}

func TestTheRootDecidesWhoWorksOnAChild(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		root := r.create("x")
		pod := r.bear(root, "p", "a")
		assert.ErrorIs(t, r.doFor(pod), ErrNotYet, "its root may follow")
		assert.ErrorIs(t, r.doFor(r.bear(root, "q", "b")), ErrNotMine, "nor need its root be here")
		r.assign("x")
		assert.NoError(t, r.doFor(pod))
		assert.ErrorIs(t, r.doFor(r.pod("q")), ErrNotYet, "b may be at work on it, if it was a child of b's root")
		assert.NoError(t, r.doFor(r.bear(root, "r", "")), "it has no label yet")
		marked := r.pod("p")
		marked.Labels[r.keys.Drain] = protocol.DrainValue
		assert.ErrorIs(t, r.doFor(marked), ErrNotYet, "the sharder may just be giving it to another shard")
		r.set(
			"x", "a", false,
			&protocol.Record{UID: root.UID, Shard: "a", LeaseUID: "earlier", Epoch: 1, State: protocol.StateOwned},
		)
		synctest.Wait()
		assert.ErrorIs(t, r.doFor(pod), ErrNotYet, "no event of the child follows when its root has its new record")

		other := r.bear(root, "other", "a")
		other.OwnerReferences = nil
		assert.ErrorIs(t, r.doFor(other), ErrNotMine)
		other.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: root.UID, Controller: new(true)},
		}
		assert.ErrorIs(t, r.doFor(other), ErrNotMine)
		another := podOf(root, "another")
		another.OwnerReferences[0].UID = "of an earlier one"
		another.Labels = map[string]string{r.keys.Shard: "a"}
		assert.ErrorIs(t, r.doFor(another), ErrNotYet)
	})
}

func TestWorkOnAChildHasToEndBeforeItsRootIsHandedOver(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		r.create("x")
		root := r.assign("x")
		pod := r.bear(root, "p", "a")
		finish, result := make(chan struct{}), make(chan error)
		go func() {
			result <- r.shard.Do(r.ctx, pod, func(context.Context) error {
				<-finish
				return nil
			})
		}()
		synctest.Wait()
		r.set("x", "a", true, nil)
		time.Sleep(time.Second)
		r.drainedStill("x")
		assert.ErrorIs(t, r.doFor(pod), ErrNotYet)
		assert.ErrorIs(t, r.do(root), ErrNotYet)
		close(finish)
		require.NoError(t, <-result)
		synctest.Wait()
		r.acknowledged("x")
		assert.ErrorIs(t, r.doFor(pod), ErrNotYet)
		assert.ErrorIs(t, r.doFor(r.label("p", "b")), ErrNotMine)
	})
}

func TestARootOfTheClusterHasChildrenInNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCluster(t).replica(Config{Resources: families()}).shard
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u", Controller: new(true)},
		}}}
		_, at, err := s.rootOf(ringtest.Pods, pod)
		require.NoError(t, err)
		assert.Equal(t, protocol.Address{Resource: ringtest.Nodes, Name: "n", UID: "u"}, at)
	})
}

func TestWorkWaitsForTheCachesOfChildren(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		root := r.create("x")
		r.assign("x")
		assert.NoError(t, r.do(r.cached("x")), "what has no cache is not behind")
		children := r.raise(time.Minute)
		assert.NoError(t, r.do(r.cached("x")))

		moved := r.bear(root, "p", "a")
		other := r.bear(root, "q", "b")
		rec := r.owned(root)
		rec.ChildFloor = map[string]string{"elephants": "77"}
		r.set("x", "a", false, rec)
		synctest.Wait()
		assert.ErrorContains(
			t, r.do(r.cached("x")), "a cache of pods, children of it, does not show yet",
			"the record does not know of them",
		)

		rec.ChildFloor = map[string]string{"pods": moved.ResourceVersion, "elephants": "77"}
		r.set("x", "a", false, rec)
		synctest.Wait()
		assert.ErrorContains(t, r.do(r.cached("x")), "a cache of pods, children of it, does not show yet")
		assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
		assert.ErrorIs(t, r.doFor(moved), ErrNotYet)
		time.Sleep(time.Minute + time.Second)
		assert.Len(t, children.GetStore().List(), 1)
		assert.NoError(t, r.do(r.cached("x")))
		assert.NoError(t, r.doFor(moved))

		rec.ChildFloor["pods"] = other.ResourceVersion // only a bookmark shows this version
		r.set("x", "a", false, rec)
		synctest.Wait()
		assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
		time.Sleep(2*time.Minute + time.Second)
		assert.NoError(t, r.do(r.cached("x")))

		stale := moved.DeepCopy()
		r.label("p", "b")
		r.label("p", "a")
		time.Sleep(time.Minute + time.Second)
		assert.ErrorIs(t, r.doFor(stale), ErrNotYet, "the cache shows a newer copy")
	})
}

// Another shard has had the root meanwhile, and has deleted its last child. No version of a child
// says so. The cache still shows the child from before.
func TestWorkWaitsUntilNoDeletedChildIsShown(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		children := r.raise(time.Minute)
		r.create("y")
		root := r.create("x")
		r.assign("x")
		r.bear(root, "p", "a")
		time.Sleep(time.Minute + time.Second)
		require.Len(t, children.GetStore().List(), 1)
		assert.NoError(t, r.do(r.cached("x")))
		r.set("x", "a", true, nil)
		synctest.Wait()
		r.acknowledged("x")
		require.NoError(t, r.admin.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}))
		pods, err := r.admin.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for _, name := range []string{"x", "y"} {
			rec := r.owned(r.get(name))
			rec.Childless = map[string]string{"pods": pods.ResourceVersion}
			r.set(name, "a", false, rec)
		}
		synctest.Wait()
		require.Len(t, children.GetStore().List(), 1)
		assert.ErrorContains(t, r.do(r.cached("x")), "a cache of pods, children of it, does not show yet")
		assert.ErrorIs(t, r.do(r.cached("x")), ErrNotYet)
		assert.NoError(t, r.do(r.cached("y")), "the cache shows no child of it")
		time.Sleep(time.Minute + time.Second)
		assert.Empty(t, children.GetStore().List())
		assert.NoError(t, r.do(r.cached("x")))
		r.bear(root, "q", "a") // of its own
		time.Sleep(time.Minute + time.Second)
		require.Len(t, children.GetStore().List(), 1)
		assert.NoError(t, r.do(r.cached("x")))
	})
}

// Each cache of children has to reach the version of its own resource.
func TestEachCacheOfChildrenHasItsOwnFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		resources := []api.Resource{{
			GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Services, ringtest.Pods},
		}}
		assert.NoError(t, w.replica(Config{Resources: resources}).run(func(r *replica) {
			r.raise(time.Minute)
			client := r.client()
			services := r.shard.NewInformer(ListerWatcher(client.CoreV1().Services(""), client), &corev1.Service{}, 0,
				cache.Indexers{})
			r.running.Go(func() { services.RunWithContext(r.ctx) })
			synctest.Wait()
			root := r.create("x")
			pod := r.bear(root, "p", "a")
			_, err := r.admin.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "s", Labels: map[string]string{r.keys.Shard: "a"}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			rec := r.owned(root)
			rec.ChildFloor = map[string]string{"services": "", "pods": pod.ResourceVersion}
			r.set("x", "a", false, rec)
			synctest.Wait()
			require.Len(t, services.GetStore().List(), 1)
			assert.ErrorContains(t, r.do(r.cached("x")), "a cache of pods, children of it, does not show yet")
			time.Sleep(time.Minute + time.Second)
			assert.NoError(t, r.do(r.cached("x")))

			rec.ChildFloor["services"] = r.bear(root, "q", "a").ResourceVersion // only a bookmark shows it
			r.set("x", "a", false, rec)
			time.Sleep(time.Second)
			assert.ErrorContains(t, r.do(r.cached("x")), "a cache of services, children of it, does not show yet")
		}))
	})
}

func TestWorkWaitsForACacheOfChildrenThatIsAboutToBegin(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.create("x")
		root := r.assign("x")
		client := r.client()
		informer := r.shard.NewInformer(ListerWatcher(client.CoreV1().Pods(""), client), &corev1.Pod{}, 0,
			cache.Indexers{})
		assert.ErrorIs(t, r.do(root), ErrNotYet)
		ctx, stop := context.WithCancel(r.ctx)
		r.running.Go(func() { informer.RunWithContext(ctx) })
		synctest.Wait()
		assert.NoError(t, r.do(root))
		stop()
		synctest.Wait()
		assert.NoError(t, r.do(root))
	})
}

// A cache of children that fails concerns its namespace only. Two caches have one namespace each,
// and one of them cannot list. Work on the roots of the other namespace begins.
func TestACacheOfChildrenThatFailsConcernsItsNamespaceOnly(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.create("x")
		root := r.assign("x")
		client := r.client()
		here := r.shard.NewInformerOf(
			"default", ListerWatcher(client.CoreV1().Pods("default"), client), &corev1.Pod{}, 0, cache.Indexers{},
		)
		r.running.Go(func() { here.RunWithContext(r.ctx) })
		// never runs
		r.shard.NewInformerOf(
			"elsewhere", ListerWatcher(client.CoreV1().Pods("elsewhere"), client), &corev1.Pod{}, 0, cache.Indexers{},
		)
		synctest.Wait()
		assert.NoError(t, r.do(root))
		pod := r.bear(root, "p", "a")
		assert.NoError(t, r.doFor(pod))
		r.shard.NewInformer(ListerWatcher(client.CoreV1().Pods("elsewhere"), client), &corev1.Pod{}, 0,
			cache.Indexers{})
		assert.ErrorIs(t, r.do(root), ErrNotYet, "which might be of any namespace")
	})
}

func TestChildrenOfAnotherShardsRootAreSentBack(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		r.create("mine")
		mine := r.assign("mine")
		r.create("theirs")
		theirs := r.set("theirs", "b", false, nil)
		r.set(
			"theirs", "b", false,
			&protocol.Record{UID: theirs.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned},
		)
		blank := r.create("blank")
		moving := r.create("moving")
		r.set(
			"moving", "", false,
			&protocol.Record{UID: moving.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateFree},
		)
		gone := r.create("gone")
		for name, root := range map[string]*corev1.ConfigMap{
			"mine": mine, "theirs": theirs, "blank": blank, "moving": moving, "gone": gone,
		} {
			r.bear(root, name, "a")
		}
		require.NoError(t, r.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "gone", metav1.DeleteOptions{}))
		time.Sleep(misplacedInterval)
		assert.Empty(t, r.hooks(), "a root may be on its way")
		time.Sleep(2 * misplacedInterval)
		assert.Equal(t, []string{"bounce theirs"}, r.hooks())
		assert.Equal(
			t, map[string]string{r.keys.Shard: "a", r.keys.Drain: protocol.DrainValue}, r.pod("theirs").Labels,
			"its root may be about to come",
		)
		for _, name := range []string{"mine", "blank", "moving", "gone"} {
			assert.Equal(t, "a", r.pod(name).Labels[r.keys.Shard], name)
		}
	})
}

// adopt gives a child another root.
func (w *cluster) adopt(child string, root *corev1.ConfigMap) *corev1.Pod {
	pod := w.pod(child)
	pod.OwnerReferences = podOf(root, child).OwnerReferences
	pod, err := w.admin.CoreV1().Pods("default").Update(w.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	synctest.Wait()
	return pod
}

// A child gets another root, which is another shard's. This shard lets go of it when its work on it has
// ended, which it cancels after AckGrace.
func TestAChildThatGetsAnotherRootIsLetGoOfAfterTheWork(t *testing.T) {
	for name, c := range map[string]struct {
		work func(ctx context.Context) error
		ends time.Duration // at most, after the adoption
		err  error
	}{
		"that ends by itself": {
			func(context.Context) error {
				time.Sleep(50 * time.Second)
				return nil
			}, 50 * time.Second, nil,
		},
		"that ends with its context": {
			func(ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				return context.Cause(ctx)
			}, 10*time.Second + 3*misplacedInterval, ErrDrained,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFamily(t, func(t *testing.T, r *replica) {
				r.raise(0)
				r.create("mine")
				pod := r.bear(r.assign("mine"), "p", "a")
				theirs := r.create("theirs")
				theirs = r.set("theirs", "b", false,
					&protocol.Record{UID: theirs.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned})
				result := make(chan error, 1)
				go func() {
					result <- r.shard.Do(r.ctx, pod, func(ctx context.Context) error {
						err := c.work(ctx)
						assert.Empty(t, r.hooks(), "work goes on")
						return err
					})
				}()
				synctest.Wait()
				adopted := r.adopt("p", theirs)
				begun := time.Now()
				assert.ErrorIs(t, r.doFor(pod), ErrNotYet, "the cache shows its new root")
				assert.ErrorIs(t, r.doFor(adopted), ErrNotYet)
				assert.ErrorIs(t, <-result, c.err)
				assert.LessOrEqual(t, time.Since(begun), c.ends)
				time.Sleep(2 * misplacedInterval)
				assert.Equal(t, []string{"bounce p"}, r.hooks())
			})
		})
	}
}

// Work on a child has ended, but a request of it may still be carried out.
func TestAChildThatGetsAnotherRootIsLetGoOfAfterTheRequestsOfWork(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		r.create("mine")
		pod := r.bear(r.assign("mine"), "p", "a")
		theirs := r.create("theirs")
		theirs = r.set("theirs", "b", false,
			&protocol.Record{UID: theirs.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned})
		term, err := r.lease.Term()
		require.NoError(t, err)
		late := &requests{}
		late.open.Store(true)
		p := &workItem{
			at: protocol.Address{Resource: ringtest.ConfigMaps, Name: "mine"}, term: term, scope: late,
			child: protocol.AddressOf(ringtest.Pods, pod),
		}
		require.NoError(t, r.shard.tracker.admit(p, showMine))
		r.shard.tracker.leave(p, true)
		r.adopt("p", theirs)
		time.Sleep(time.Hour)
		assert.Empty(t, r.hooks())
		late.open.Store(false)
		time.Sleep(2 * misplacedInterval)
		assert.Equal(t, []string{"bounce p"}, r.hooks())
	})
}

// Others change the child all the time.
func TestAChildThatChangesOftenIsSentBackAllTheSame(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		theirs := r.create("theirs")
		theirs = r.set("theirs", "b", false,
			&protocol.Record{UID: theirs.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned})
		r.bear(theirs, "p", "a")
		for n := range 20 {
			_, err := r.admin.CoreV1().Pods("default").Patch(t.Context(), "p", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, n), metav1.PatchOptions{})
			require.NoError(t, err)
			time.Sleep(3 * misplacedInterval / 20)
		}
		assert.Equal(t, []string{"bounce p"}, r.hooks())
	})
}

func TestTransformsLeaveTheOwnerAlone(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		client := r.client()
		informer := r.shard.NewInformer(ListerWatcher(client.CoreV1().Pods(""), client), &corev1.Pod{}, 0,
			cache.Indexers{})
		require.NoError(t, informer.SetTransform(func(obj any) (any, error) {
			o := obj.(*corev1.Pod)
			o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}
			return o, nil
		}))
		r.running.Go(func() { informer.RunWithContext(r.ctx) })
		r.create("x")
		r.bear(r.assign("x"), "p", "a")
		require.Len(t, informer.GetStore().List(), 1)
		assert.NoError(t, r.doFor(informer.GetStore().List()[0].(*corev1.Pod)))
	})
}

func TestChildrenAreStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		s := w.replica(Config{Resources: families()}).shard
		root := w.create("x")
		pod := podOf(root, "p")
		require.NoError(t, s.Stamp(pod))
		assert.Equal(t, map[string]string{w.keys.Shard: "a"}, pod.Labels)
		pod.Labels = map[string]string{"b": "c"}
		require.NoError(t, s.Stamp(pod))
		assert.Equal(t, map[string]string{w.keys.Shard: "a", "b": "c"}, pod.Labels)

		pod = podOf(root, "p")
		pod.OwnerReferences = nil
		assert.ErrorContains(
			t, s.Stamp(pod), "shard: stamp pods default/p: no controller owner reference says whose child it is",
		)
		pod = podOf(root, "p")
		pod.OwnerReferences[0].Kind = "Secret"
		assert.ErrorContains(
			t, s.Stamp(pod), "it is controlled by a Secret, of whose resource pods are not among the Children",
		)
		assert.Empty(t, pod.Labels)
		assert.ErrorContains(t, s.Stamp(root), "shard: stamp configmaps default/x: they are not children")
		assert.ErrorContains(t, s.Stamp(&corev1.Secret{}), "objects of kind Secret are not in")
	})
}
