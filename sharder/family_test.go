package sharder

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

func (k *cluster) familyConfig() Config {
	c := k.config()
	c.Resources[0].Children = []schema.GroupVersionResource{ringtest.Pods}
	return c
}

// bear creates n children of every root, with the label of its shard if they are stamped.
func (k *cluster) bear(n int, stamped bool) {
	for _, o := range k.objects() {
		for range n {
			shard := ""
			if stamped {
				shard = k.keys.ShardOf(&o)
			}
			k.bearOne(&o, shard)
		}
	}
}

func (k *cluster) bearOne(root metav1.Object, shard string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", GenerateName: "p-",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(root,
			corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}}
	if shard != "" {
		pod.Labels = map[string]string{k.keys.Shard: shard}
	}
	pod, err := k.kube.CoreV1().Pods("default").Create(k.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(k.t, err)
	return pod
}

// children returns all children by the UID of their root.
func (k *cluster) children() map[types.UID][]metav1.PartialObjectMetadata {
	list, err := k.meta.Resource(ringtest.Pods).List(k.t.Context(), metav1.ListOptions{})
	require.NoError(k.t, err)
	all := map[types.UID][]metav1.PartialObjectMetadata{}
	for _, o := range list.Items {
		for _, p := range o.OwnerReferences {
			all[p.UID] = append(all[p.UID], o)
		}
	}
	return all
}

// requireFamilies fails unless every root has n children, and each is with its root.
func (k *cluster) requireFamilies(n int) {
	k.t.Helper()
	children := k.children()
	for _, o := range k.objects() {
		require.Len(k.t, children[o.UID], n)
		for _, c := range children[o.UID] {
			require.Equal(k.t, k.keys.ShardOf(&o), k.keys.ShardOf(&c), "%s of %s", c.Name, o.Name)
		}
	}
}

// rootsOf returns the names of the roots with the label of a shard.
func (k *cluster) rootsOf(shard string) (all []string) {
	for _, o := range k.objects() {
		if k.keys.ShardOf(&o) == shard {
			all = append(all, o.Name)
		}
	}
	return all
}

// requireFloors fails unless the child floor of each of the roots is the newest version of its
// children. Work on the root waits for caches that reach the floor.
func (k *cluster) requireFloors(roots []string) {
	k.t.Helper()
	require.NotEmpty(k.t, roots)
	children := k.children()
	for _, o := range k.objects() {
		if !slices.Contains(roots, o.Name) {
			continue
		}
		greatest := ""
		for _, c := range children[o.UID] {
			if protocol.Reaches(c.ResourceVersion, greatest) {
				greatest = c.ResourceVersion
			}
		}
		r, _ := k.keys.RecordOf(&o)
		require.Equal(k.t, map[string]string{"pods": greatest}, r.ChildFloor, o.Name)
	}
}

// requireFloorsReach is requireFloors for roots that came without a record. Their floors may be
// higher, because work on them may also wait for other children of their shard.
func (k *cluster) requireFloorsReach(roots []string) {
	k.t.Helper()
	require.NotEmpty(k.t, roots)
	children := k.children()
	for _, o := range k.objects() {
		if !slices.Contains(roots, o.Name) {
			continue
		}
		r, _ := k.keys.RecordOf(&o)
		for _, c := range children[o.UID] {
			assert.True(k.t, protocol.Reaches(r.ChildFloor["pods"], c.ResourceVersion),
				"work on %s begins at version %q of pods, and %s is of %s", o.Name, r.ChildFloor["pods"], c.Name,
				c.ResourceVersion)
		}
	}
}

// lists counts the pages of children that the latest sharder lists. count returns the number since
// its last call.
func (k *cluster) lists() (count func() int) {
	var mu sync.Mutex
	pages := 0
	k.connection.Inject(apisim.Faults{Latency: 50 * time.Millisecond, Refuse: func(q *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/pods") && q.URL.Query().Get("watch") == "" {
			pages++
		}
		return false
	}})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		defer func() { pages = 0 }()
		return pages
	}
}

func TestChildrenGetTheShardOfTheirRoot(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(2, true)
		time.Sleep(20 * time.Minute)
		assert.Empty(t, k.patched(), "what is stamped costs nothing")
		k.bear(1, false)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]int{"follow": 20}, k.patched())
		k.requireFamilies(3)

		stranger := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
		_, err := k.kube.CoreV1().Pods("default").Create(t.Context(), stranger, metav1.CreateOptions{})
		require.NoError(t, err)
		gone := k.objects()[0]
		gone.UID = "gone"
		k.bearOne(&gone, "")
		time.Sleep(time.Minute)
		assert.Empty(t, k.patched(), "of no root of the ring")
		for _, s := range shards {
			s.release()
		}
	})
}

// A marked child goes where its root is. A shard marks a child that it takes for another shard's,
// and may be wrong.
func TestMarkedChildrenGoWhereTheirRootIs(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		defer stop()
		mark := func(root metav1.Object, shard string) {
			pod := k.bearOne(root, shard)
			_, err := k.meta.Resource(ringtest.Pods).Namespace("default").Patch(t.Context(), pod.Name,
				types.MergePatchType,
				k.keys.MergePatch(pod.UID, pod.ResourceVersion, shard, true, nil), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		for _, o := range k.objects() {
			mark(&o, "a")
		}
		time.Sleep(time.Second)
		k.requireFamilies(1)
		for _, of := range k.children() {
			assert.False(t, k.keys.Draining(&of[0]))
		}
		assert.Equal(t, map[string]int{"follow": 20}, k.patched())

		// b is silent. a already has some of its children, but not their roots.
		shards[1].kill()
		roots := k.rootsOf("b")
		for _, o := range k.objects() {
			if slices.Contains(roots, o.Name) {
				mark(&o, "a")
			}
		}
		time.Sleep(16 * time.Second) // b may still come back
		assert.Empty(t, slices.DeleteFunc(slices.Collect(maps.Keys(k.patched())), func(verb string) bool {
			return verb == "follow"
		}))
		time.Sleep(time.Minute)
		k.requirePlaced(20, "a")
		k.requireFloors(roots)
		for _, of := range k.children() {
			for _, c := range of {
				assert.Equal(t, "a", k.keys.ShardOf(&c))
				assert.False(t, k.keys.Draining(&c))
			}
		}
	})
}

func TestChildrenOfANewRootWaitForIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop := k.sharder(k.familyConfig())
		defer stop()
		k.create(10, "o")
		k.bear(1, false)
		time.Sleep(time.Minute)
		assert.Empty(t, k.patched(), "there is no shard")
		k.shard("a")
		time.Sleep(40 * time.Second)
		k.requirePlaced(10, "a")
		k.requireFamilies(1)
		k.requireFloorsReach(k.rootsOf("a"))
		assert.Equal(t, map[string]int{"assign": 10, "follow": 10}, k.patched())
	})
}

// The children of a root that is selected later come with the root. When a controller begins to be
// sharded, its shards must see the children that exist, or they create them again.
func TestChildrenOfARootThatIsSelectedLaterComeWithIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "sharded=true")
		k.shard("a")
		time.Sleep(time.Second)
		stop := k.sharder(c)
		defer stop()
		k.create(10, "o")
		k.bear(2, false)
		time.Sleep(20 * time.Minute) // the ring is settled
		assert.Empty(t, k.patched())
		for _, o := range k.objects() {
			_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace(o.Namespace).Patch(t.Context(), o.Name,
				types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"sharded":"true"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		k.requirePlaced(10, "a")
		k.requireFamilies(2)
		k.requireFloorsReach(k.rootsOf("a"))
		assert.Equal(t, map[string]int{"assign": 10, "follow": 20}, k.patched())
	})
}

// Most children of a resource may have roots that are not selected. Such a root is read once between two
// scans, however many children it has and however often they change. If it is selected then, the sharder
// knows at once of each of its children.
func TestChildrenOfRootsThatAreNotSelectedCostLittle(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "sharded=true")
		k.shard("a")
		time.Sleep(time.Second)
		defer k.sharder(c)()
		time.Sleep(time.Second)
		toll := k.deny("", nil)
		reads := func() int { return toll.take()["GET configmaps"] }
		k.create(1, "o")
		root := k.objectOf("o-000")
		k.bearOne(root, "")
		time.Sleep(time.Second)
		assert.Equal(t, 1, reads())
		for range 99 {
			k.bearOne(root, "")
		}
		for i := range 10 {
			for _, child := range k.children()[root.UID] {
				_, err := k.meta.Resource(ringtest.Pods).Namespace("default").Patch(t.Context(), child.Name,
					types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"x":"%d"}}}`, i),
					metav1.PatchOptions{})
				require.NoError(t, err)
			}
			time.Sleep(time.Second)
		}
		assert.Zero(t, reads())
		time.Sleep(50 * time.Minute)
		assert.LessOrEqual(t, reads(), 10*16, "by each worker, once for each of 10 scans")

		k.edit("o-000", `{"metadata":{"labels":{"sharded":"true"}}}`)
		time.Sleep(time.Second)
		k.requireFamilies(100)
		k.bearOne(root, "")
		time.Sleep(time.Second)
		k.requireFamilies(101)
	})
}

// A root that is selected later is not taken for a new one, even if the sharder already knows the
// children of other roots.
func TestARootThatIsSelectedLaterIsNotTakenForANewOne(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "sharded=true")
		k.shard("a")
		time.Sleep(time.Second)
		defer k.sharder(c)()
		k.create(2, "o")
		k.edit("o-000", `{"metadata":{"labels":{"sharded":"true"}}}`)
		time.Sleep(time.Minute)
		require.Equal(t, "a", k.keys.ShardOf(k.objectOf("o-000")))
		k.bear(2, false)
		time.Sleep(10 * time.Minute)
		k.edit("o-001", `{"metadata":{"labels":{"sharded":"true"}}}`)
		time.Sleep(time.Minute)
		k.requireFamilies(2)
		k.requireFloorsReach([]string{"o-001"})
	})
}

func TestChildrenOfAResourceThatIsNewInTheRingAreGathered(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a", "b")
		k.bear(2, false)
		root := k.objects()[0]
		k.bearOne(&root, "elsewhere")
		require.NoError(t,
			k.kube.CoreV1().Pods("default").Delete(t.Context(), k.bearOne(&root, "").Name, metav1.DeleteOptions{}))
		before := k.owners()
		stop()
		stop = k.sharder(k.familyConfig())
		defer stop()
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]int{"gather": 20, "follow": 41}, k.patched())
		assert.Equal(t, before, k.owners())
		k.requireFloors(k.rootsOf("a"))
		k.requireFloors(k.rootsOf("b"))
		for _, s := range shards {
			s.release()
		}
	})
}

func TestFamiliesMoveTogether(t *testing.T) {
	for name, depart := range map[string]func(*testShard){
		"release": func(s *testShard) { s.release() },
		"death":   (*testShard).kill,
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				stop, shards := k.settledWith(60, k.familyConfig(), "a", "b", "c")
				defer stop()
				k.bear(2, true)
				time.Sleep(20 * time.Minute) // a scan has found the ring settled
				roots := k.rootsOf("b")
				moved := len(roots)
				count := k.lists()
				depart(shards[1])
				time.Sleep(40 * time.Second)
				k.requirePlaced(60, "a", "c")
				k.requireFamilies(2)
				k.requireFloors(roots)
				assert.Equal(t, map[string]int{"assign": moved, "follow": 2 * moved}, k.patched())
				assert.LessOrEqual(t, count(), 2+2+2,
					"one batch and what came meanwhile, and one for each scan that followed")
			})
		})
	}
}

// A record says as of when its root has no children: what the former shard has deleted, the next one
// must not see.
func TestARecordSaysAsOfWhenItsRootIsChildless(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		roots := k.rootsOf("a")
		deleted := map[string]string{} // the version, by the name of the root
		for i, name := range roots {
			if child := k.children()[k.objectOf(name).UID][0]; i%2 == 0 {
				require.NoError(t,
					k.kube.CoreV1().Pods("default").Delete(t.Context(), child.Name, metav1.DeleteOptions{}))
				pods, err := k.meta.Resource(ringtest.Pods).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				deleted[name] = pods.ResourceVersion
			}
		}
		require.NotEmpty(t, deleted)
		shards[0].release()
		time.Sleep(time.Minute)
		k.requirePlaced(20, "b")
		for _, name := range roots {
			r, _ := k.keys.RecordOf(k.objectOf(name))
			version, childless := deleted[name]
			if !childless {
				assert.Empty(t, r.Childless, name)
				continue
			}
			assert.Equal(t, map[string]string{"pods": ""}, r.ChildFloor, name)
			require.Contains(t, r.Childless, "pods", name)
			assert.True(t, protocol.Reaches(r.Childless["pods"], version), "%s: %s", name, r.Childless)
		}
	})
}

// A new root costs no list of children, however many shards and children there are.
func TestANewRootCostsNoListOfChildren(t *testing.T) {
	for _, shards := range []int{2, 80} { // the names of more than 70 do not fit into a selector
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.familyConfig()
				c.PageSize = 50
				for i := range shards {
					k.shard(fmt.Sprintf("%s-%02d", strings.Repeat("x", 57), i))
				}
				time.Sleep(time.Second)
				defer k.sharder(c)()
				k.create(100, "o")
				time.Sleep(time.Minute)
				k.bear(2, true)
				time.Sleep(2 * time.Minute)
				require.Contains(t, k.told(), fmt.Sprintf("settled %v", k.members()))
				count := k.lists()
				for i := range 20 {
					k.create(1, fmt.Sprint("new-", i))
					time.Sleep(100 * time.Millisecond)
				}
				assert.Zero(t, k.owners()["-"])
				assert.Zero(t, count())
				for _, o := range k.objects() {
					r, _ := k.keys.RecordOf(&o)
					require.Contains(t, r.ChildFloor, "pods", "work may begin")
				}
			})
		})
	}
}

// A root whose move has ended halfway is not taken for a new one. Some of its children are with its
// next shard, and the others are with a shard that is gone. Then it loses its record.
func TestARootWhoseMoveHasEndedHalfwayIsNotTakenForANewOne(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(2, true)
		time.Sleep(10 * time.Minute)
		root := k.objectOf(k.rootsOf("a")[0])
		k.deny(k.children()[root.UID][1].Name, refusals()["403"])
		shards[0].release()
		time.Sleep(10 * time.Minute) // the ring is settled but for this root
		require.Len(t, k.historyNow().Memberships, 1)
		k.strips(k.objectOf(root.Name))
		time.Sleep(time.Minute)
		assert.Empty(t, k.keys.ShardOf(k.objectOf(root.Name)), "not all of its children are with its next shard")
		k.connection.Inject(apisim.Faults{})
		time.Sleep(time.Minute)
		k.requirePlaced(20, "b")
		k.requireFamilies(2)
	})
}

// members returns the shards that have a Lease.
func (k *cluster) members() (names []string) {
	leases, err := k.kube.CoordinationV1().Leases(testNamespace).List(k.t.Context(), metav1.ListOptions{})
	require.NoError(k.t, err)
	for _, l := range leases.Items {
		names = append(names, l.Name)
	}
	return names
}

// The sharder lists the children of roots from many shards once, and not once for each shard.
func TestListsOfChildrenDoNotGrowWithTheShards(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("s-%02d", i))
		}
		stop, _ := k.settledWith(400, k.familyConfig(), names...)
		defer stop()
		time.Sleep(10 * time.Minute)
		k.bear(1, true)
		count := k.lists()
		k.shard("t")
		time.Sleep(time.Minute)
		k.requirePlaced(400, append(names, "t")...)
		k.requireFamilies(1)
		k.requireFloors(k.rootsOf("t"))
		assert.LessOrEqual(t, count(), 8, "a few batches, and what scans list")
	})
}

func TestAJoiningShardGetsFamilies(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(60, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(1, true)
		k.shard("c")
		time.Sleep(30 * time.Second)
		k.requirePlaced(60, "a", "b", "c")
		k.requireFamilies(1)
		k.requireFloors(k.rootsOf("c"))
		moved := k.owners()["c"]
		assert.Equal(t, map[string]int{"drain": moved, "assign": moved, "follow": moved}, k.patched())
	})
}

// The sharder lists the children of many roots only a few times. It lists children that do not move
// only while it is new.
func TestManyFamiliesMoveInFewBatches(t *testing.T) {
	const families = 500
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.PageSize = 50
		stop, shards := k.settledWith(families, c, "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		moved := k.owners()["b"]
		count := k.lists()
		shards[1].release()
		time.Sleep(time.Minute)
		k.requirePlaced(families, "a")
		k.requireFamilies(1)
		pages := (moved + c.PageSize - 1) / c.PageSize
		assert.LessOrEqual(t, count(), 8*pages)
		assert.Equal(t, map[string]int{"assign": moved, "follow": moved}, k.patched())
	})
}

// A move that has ended halfway is finished with the right floors. A sharder has moved the
// children, and then not their root. The same sharder and the next one know which version of the
// children the next shard must have seen.
func TestAMoveThatEndedHalfwayIsKnown(t *testing.T) {
	for name, another := range map[string]bool{"the same sharder": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				stop, shards := k.settledWith(20, k.familyConfig(), "a", "b")
				defer func() { stop() }()
				k.bear(2, true)
				time.Sleep(10 * time.Minute)
				roots := k.rootsOf("a")
				k.connection.Inject(apisim.Faults{Refuse: func(q *http.Request) bool {
					return ringtest.IsPatch(q) && strings.Contains(q.URL.Path, "/configmaps/")
				}})
				shards[0].release()
				time.Sleep(10 * time.Second)
				children := 0
				for _, of := range k.children() {
					for _, c := range of {
						assert.Equal(t, "b", k.keys.ShardOf(&c))
						children++
					}
				}
				assert.Equal(t, 40, children)
				if another {
					stop()
					stop = k.sharder(k.familyConfig())
				} else {
					k.connection.Inject(apisim.Faults{})
				}
				time.Sleep(time.Minute)
				k.requirePlaced(20, "b")
				k.requireFamilies(2)
				k.requireFloors(roots)
			})
		})
	}
}

// A root that loses its record keeps the floor of its children, whichever sharder writes the next
// record. Its shard may not have seen the children yet.
func TestARootThatLosesItsRecordKeepsTheFloorOfItsChildren(t *testing.T) {
	for name, of := range map[string]struct {
		another  bool
		selector string
	}{"the same sharder": {}, "another": {another: true}, "of those that are selected": {selector: "!elsewhere"}} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, k *cluster) {
				c := k.familyConfig()
				if of.selector != "" {
					c.Resources[0].Selector = ringtest.SelectorOf(t, of.selector)
				}
				stop, shards := k.settledWith(20, c, "a", "b")
				defer func() { stop() }()
				k.bear(2, true)
				time.Sleep(10 * time.Minute)
				roots := k.rootsOf("a")
				shards[0].release()
				time.Sleep(10 * time.Minute) // the ring and its history are settled
				k.requirePlaced(20, "b")
				k.requireFloors(roots)
				if of.another {
					stop()
					stop = k.sharder(c)
					time.Sleep(10 * time.Minute)
				}
				for _, o := range k.objects() {
					if slices.Contains(roots, o.Name) {
						k.strips(&o)
					}
				}
				time.Sleep(time.Second)
				k.requirePlaced(20, "b")
				k.requireFloorsReach(roots)
			})
		})
	}
}

// The children of a stripped root are found. Two shards in succession may have been given the root.
// The shard that is asked last has not created the children.
func TestChildrenOfAStrippedRootAreFound(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(120, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		shards[0].stubborn.Store(true)
		k.shard("c")
		time.Sleep(10 * time.Second)
		k.shard("d")
		time.Sleep(10 * time.Second)
		for _, name := range k.rootsOf("a") {
			_, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Patch(t.Context(), name,
				types.MergePatchType,
				[]byte(`{"metadata":{"labels":null,"annotations":null}}`), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		time.Sleep(time.Second)
		shards[0].stubborn.Store(false)
		time.Sleep(2 * time.Minute)
		k.requirePlaced(120, "a", "b", "c", "d")
		k.requireFamilies(1)
	})
}

func TestAChildInTheNameOfAShardThatIsGoneIsFound(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(10, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(1, true)
		root := k.objects()[0]
		k.bearOne(&root, "z")
		time.Sleep(6 * time.Minute)
		for _, c := range k.children()[root.UID] {
			assert.Equal(t, k.keys.ShardOf(&root), k.keys.ShardOf(&c))
		}
		assert.Equal(t, map[string]int{"follow": 1}, k.patched())
	})
}

func TestAChildThatOthersChangeIsMovedAllTheSame(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(6, k.familyConfig(), "a", "b")
		defer stop()
		k.bear(3, true)
		time.Sleep(10 * time.Minute)
		k.connection.Inject(apisim.Faults{Latency: 100 * time.Millisecond})
		shards[0].release()
		for range 20 { // in every family, one child is deleted and another one changes all the time
			time.Sleep(50 * time.Millisecond)
			for _, of := range k.children() {
				if len(of) == 3 {
					require.NoError(t,
						k.kube.CoreV1().Pods("default").Delete(t.Context(), of[0].Name, metav1.DeleteOptions{}))
				}
				_, err := k.meta.Resource(ringtest.Pods).Namespace("default").Patch(t.Context(), of[len(of)-1].Name,
					types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{"at":"%d"}}}`, time.Now().UnixNano()),
					metav1.PatchOptions{})
				require.NoError(t, err)
			}
		}
		time.Sleep(time.Minute)
		k.requirePlaced(6, "b")
		k.requireFamilies(2)
	})
}

func TestChildrenAreLookedForWhereTheirRootsAre(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.Resources[0].Namespaces = []string{"default", "other"}
		stop, shards := k.settledWith(10, c, "a", "b")
		defer stop()
		k.bear(1, true)
		var mu sync.Mutex
		var paths []string
		k.connection.Inject(apisim.Faults{Refuse: func(q *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, q.URL.Path)
			return false
		}})
		shards[0].release()
		time.Sleep(2 * time.Second)
		k.requirePlaced(10, "b")
		k.requireFamilies(1)
		mu.Lock()
		defer mu.Unlock()
		assert.NotContains(t, paths, "/api/v1/pods")
		assert.Contains(t, paths, "/api/v1/namespaces/default/pods")
	})
}

func TestChildrenOfRootsOfTheCluster(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
		c.Resources = []api.Resource{{GVR: namespaces, Children: []schema.GroupVersionResource{ringtest.Pods}}}
		defer k.sharder(c)()
		a := k.shard("a")
		k.shard("b")
		time.Sleep(time.Second)
		for i := range 10 {
			root, err := k.kube.CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}, metav1.CreateOptions{})
			require.NoError(t, err)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprint("in", i), Name: "p",
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(root,
					corev1.SchemeGroupVersion.WithKind("Namespace"))},
			}}
			_, err = k.kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		together := func() {
			t.Helper()
			list, err := k.meta.Resource(namespaces).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			children := k.children()
			for _, o := range list.Items {
				assert.NotEmpty(t, k.keys.ShardOf(&o))
				assert.Equal(t, k.keys.ShardOf(&o), k.keys.ShardOf(&children[o.UID][0]))
			}
		}
		time.Sleep(time.Minute)
		together()
		a.release()
		time.Sleep(time.Minute)
		together()
	})
}

func TestALeaseStaysWhileChildrenNameIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		kube, meta := k.clients(k.server.Client("sharder"))
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		e, err := s.newSession(s.tracker, s.troubles)
		require.NoError(t, err)
		k.create(1, "o")
		empty := func() bool {
			ok, err := e.objects.withoutShard(t.Context(), "z")
			require.NoError(t, err)
			return ok
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:   "stranger",
			Labels: map[string]string{k.keys.Shard: "z"},
		}}
		_, err = k.kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.True(t, empty(), "it has no shard")
		root := k.objects()[0]
		k.bearOne(&root, "z")
		assert.False(t, empty())
	})
}

func TestAChildIsExplainedByItsRoot(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		stop, _ := k.settledWith(1, c, "a")
		stop()
		kube, meta := k.clients(k.server.Client("sharder"))
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		root := k.objects()[0]
		explain := func(name string) Explanation {
			x, err := s.Explain(t.Context(), api.ObjectRef{GVR: ringtest.Pods, Namespace: "default", Name: name})
			require.NoError(t, err)
			return x
		}
		x := explain(k.bearOne(&root, "").Name)
		assert.Equal(t, api.ObjectRef{GVR: ringtest.ConfigMaps, Namespace: "default", Name: root.Name}, x.Root)
		assert.Equal(t, ringtest.Pods, x.Object.GVR)
		assert.Equal(t, "a", x.Owner)
		assert.Empty(t, x.Label)
		assert.Equal(t, "follow", x.Verb)
		x = explain(k.bearOne(&root, "a").Name)
		assert.Equal(t, "a", x.Label)
		assert.Equal(t, "keep", x.Verb)
		assert.Equal(t, "it is with its root: it is with its owner on the ring", x.Why)
		k.create(1, "blank")
		x = explain(k.bearOne(&k.objects()[0], "").Name)
		assert.Equal(t, "hold", x.Verb)
		assert.Contains(t, x.Why, "its root is with no shard: ")
		gone := root
		gone.UID = "gone"
		x = explain(k.bearOne(&gone, "").Name)
		assert.Equal(t, "the object that controls it is gone", x.Why)
		_, err = k.kube.CoreV1().Pods("default").Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "no object of the ring controls it", explain("stranger").Why)
	})
}

func TestPermissionsOnChildrenAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta := fakes(t)
		meta.PrependReactor("patch", "pods", forbidden)
		c := testConfig()
		c.Resources[0].Children = []schema.GroupVersionResource{ringtest.Pods}
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		assert.ErrorContains(t, s.Run(t.Context()),
			`not allowed to patch pods: grant the verb "patch" on resource pods`)
	})
}
