package sharder

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestObjectsAreAssignedToTheOnlyShard(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		k.create(20, "early")
		stop := k.sharder(k.config())
		time.Sleep(time.Second)
		assert.Equal(t, map[string]int{"-": 20}, k.owners(), "there is no shard yet")
		assert.Empty(t, k.patched())

		a := k.shard("a")
		time.Sleep(5 * time.Second)
		k.requirePlaced(20, "a")
		assert.Equal(t, map[string]int{"assign": 20}, k.patched(), "one patch each")
		assert.Equal(t, []string{"members [a]", "settled [a]"}, k.told())

		k.create(5, "late")
		time.Sleep(100 * time.Millisecond)
		k.requirePlaced(25, "a")
		assert.Equal(t, map[string]int{"assign": 5}, k.patched())
		a.release()
		stop()
	})
}

// settledWith starts shards with those names and a sharder, creates n objects, and waits until each
// object is with a shard.
func (k *cluster) settledWith(n int, c Config, names ...string) (stop func(), shards []*testShard) {
	k.t.Helper()
	for _, name := range names {
		shards = append(shards, k.shard(name))
	}
	time.Sleep(time.Second)
	stop = k.sharder(c)
	time.Sleep(time.Second)
	k.create(n, "o")
	time.Sleep(20 * time.Second)
	k.requirePlaced(n, names...)
	require.Equal(k.t, map[string]int{"assign": n}, k.patched())
	k.told()
	return stop, shards
}

func TestAJoiningShardGetsItsPartByDrains(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		defer stop()
		before := k.owners()
		shards = append(shards, k.shard("c"))
		time.Sleep(30 * time.Second)
		after := k.owners()
		k.requirePlaced(60, "a", "b", "c")
		moved := after["c"]
		assert.Equal(t, map[string]int{"a": before["a"] - after["a"], "b": before["b"] - after["b"]},
			map[string]int{"a": int(shards[0].acks.Load()), "b": int(shards[1].acks.Load())})
		assert.Equal(t, map[string]int{"drain": moved}, k.patched(),
			"and as many of the shards, which give them away themselves")
		assert.Equal(t, []string{"members [a b c]", "settled [a b c]"}, k.told())
		for _, s := range shards {
			s.release()
		}
	})
}

func TestAReleasedShardsObjectsMoveAtOnceWithoutDrain(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b", "c")
		defer stop()
		moved := k.owners()["b"]
		shards[1].release()
		time.Sleep(time.Second)
		k.requirePlaced(60, "a", "c")
		assert.Equal(t, map[string]int{"assign": moved}, k.patched())
	})
}

func TestADeadShardsLeaseIsTakenOnceAndItsObjectsMove(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b", "c")
		defer stop()
		moved := k.owners()["b"]
		shards[1].kill()
		time.Sleep(26 * time.Second) // at most 30 s after its last renewal
		assert.Empty(t, k.patched())
		assert.Empty(t, k.told())
		time.Sleep(10 * time.Second)
		k.requirePlaced(60, "a", "c")
		assert.Equal(t, map[string]int{"assign": moved}, k.patched())
		told := k.told()
		assert.ElementsMatch(t, []string{"taken b", "members [a c]", "settled [a c]"}, told)
		// the response may come after the event of the watch
		told = slices.DeleteFunc(told, func(s string) bool { return s == "taken b" })
		assert.Equal(t, []string{"members [a c]", "settled [a c]"}, told)

		// It comes back, in its next epoch.
		k.shard("b")
		time.Sleep(time.Minute)
		k.requirePlaced(60, "a", "b", "c")
		assert.Equal(t, map[string]int{"drain": moved}, k.patched())
	})
}

func TestARestartWithinTheGraceMovesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b", "c")
		defer stop()
		shards[1].kill()
		k.shard("b") // waits for D
		time.Sleep(time.Minute)
		k.requirePlaced(60, "a", "b", "c")
		assert.Empty(t, k.patched())
		assert.Empty(t, k.told())
	})
}

func TestAReleaseAndReturnBetweenTwoLooksIsSeen(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b", "c")
		stop()
		moved := k.owners()["-"] + k.owners()["b"]
		shards[1].release()
		k.shard("b")
		time.Sleep(5 * time.Second)
		assert.Equal(t, moved, k.owners()["-"], "records of an epoch that is over")
		defer k.sharder(k.config())()
		time.Sleep(30 * time.Second)
		k.requirePlaced(60, "a", "b", "c")
		assert.Equal(t, map[string]int{"assign": moved}, k.patched())
	})
}

func TestAShardThatDiesWhileItIsDrainedLosesItsObjectsWithoutAcknowledgement(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		defer stop()
		stubborn(true, shards[0])
		k.shard("c")
		time.Sleep(20 * time.Second)
		draining := k.owners()["-"]
		require.Positive(t, draining)
		shards[0].kill()
		time.Sleep(time.Minute)
		k.requirePlaced(60, "b", "c")
		assert.Zero(t, shards[0].acks.Load())
	})
}

func TestASharderThatTakesOverInTheMiddleOfARebalanceFinishesIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.MaxDrains, c.Concurrency = 2, 1
		stop, _ := k.settledWith(60, c, "a", "b")
		k.connection.Inject(apisim.Faults{Latency: 50 * time.Millisecond})
		k.shard("c")
		time.Sleep(time.Second)
		stop()
		patched := k.patched()
		require.Positive(t, patched["drain"])
		time.Sleep(time.Second)
		require.Less(t, k.owners()["c"], 15)
		assert.Empty(t, k.patched(), "after Run has returned nothing is written")
		defer k.sharder(c)()
		time.Sleep(30 * time.Second)
		k.requirePlaced(60, "a", "b", "c")
		drained := patched["drain"] + k.patched()["drain"]
		assert.LessOrEqual(t, drained, k.owners()["c"], "nothing is drained twice")
		assert.GreaterOrEqual(t, drained, k.owners()["c"]-c.Concurrency, "the answers that the first did not wait for")
		assert.Contains(t, k.told(), "settled [a b c]")
	})
}

func TestDrainsAreLimited(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.MaxDrains = 3
		stop, shards := k.settledWith(60, c, "a", "b")
		defer stop()
		stubborn(true, shards...)
		k.shard("c")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 3, k.owners()["-"])
		told := k.told()
		assert.Equal(t, "members [a b c]", told[0])
		assert.Len(t, told, 4, "three are overdue: %v", told)

		assigned := k.owners()["a"]
		k.create(20, "new") // stuck objects delay no others
		time.Sleep(2 * time.Second)
		assert.Greater(t, k.owners()["a"], assigned)
		assert.Equal(t, 3, k.draining())

		stubborn(false, shards...)
		time.Sleep(2 * time.Minute)
		k.requirePlaced(80, "a", "b", "c")
		assert.Contains(t, k.told(), "settled [a b c]")
	})
}

func TestADeadShardsLeaseIsDeletedInTheEnd(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.GCPeriod = 10 * time.Minute
		stop, shards := k.settledWith(10, c, "a", "b")
		defer stop()
		shards[1].release()
		time.Sleep(9 * time.Minute)
		_, err := k.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"members [a]", "settled [a]", "collected b"}, k.told())
	})
}

func TestALeaseIsKeptWhileAnObjectCarriesItsLabel(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Resources[0].Selector, c.GCPeriod, c.ScanInterval = ringtest.SelectorOf(t,
			"sharded=true"), time.Minute, time.Minute
		stop := k.sharder(c)
		defer stop()
		k.shard("a")
		b := k.shard("b")
		k.create(1, "o")
		k.deny("o-000", refusals()["403"])
		k.edit("o-000", `{"metadata":{"labels":{"`+k.keys.Shard+`":"b"}}}`)
		time.Sleep(time.Second)
		b.release()
		time.Sleep(5 * time.Minute)
		told := k.told()
		assert.NotContains(t, told, "collected b")
		assert.Contains(t, told, "settled [a]", "whatever object is broken")
		k.deny("", nil)
		time.Sleep(2 * time.Minute)
		assert.Contains(t, k.told(), "collected b")
	})
}

func TestWhenHalfOfTheShardsExpireTogetherTheyGetMoreTime(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b", "c")
		defer stop()
		shards[1].kill()
		shards[2].kill()
		time.Sleep(40 * time.Second)
		assert.Equal(t, []string{"storm [b c]"}, k.told())
		time.Sleep(10 * time.Second)
		k.requirePlaced(30, "a")
		assert.Subset(t, k.told(), []string{"taken b", "taken c", "settled [a]"})
	})
}

// stubborn makes shards hold on to their objects, or let go of them.
func stubborn(hold bool, shards ...*testShard) {
	for _, s := range shards {
		s.stubborn.Store(hold)
	}
}

// draining returns the number of drained objects.
func (k *cluster) draining() (n int) {
	for _, o := range k.objects() {
		if k.keys.Draining(&o) {
			n++
		}
	}
	return n
}

// edit patches an object as a user does.
func (k *cluster) edit(name, patch string) {
	k.t.Helper()
	_, err := k.kube.CoreV1().ConfigMaps("default").Patch(k.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	require.NoError(k.t, err)
}

func TestEditsOfUsersAreRepaired(t *testing.T) {
	const object = "o-007"
	n := protocol.KeysOf(testRing).Of(ringtest.ConfigMaps.GroupResource())
	for name, edit := range map[string]string{
		"label removed":                        `{"labels":{"` + n.Shard + `":null}}`,
		"label set to a shard that is unknown": `{"labels":{"` + n.Shard + `":"x"}}`,
		"label set to a":                       `{"labels":{"` + n.Shard + `":"a"}}`,
		"label set to b":                       `{"labels":{"` + n.Shard + `":"b"}}`,
		"drain label set":                      `{"labels":{"` + n.Drain + `":""}}`,
		"record removed":                       `{"annotations":{"` + n.Record + `":null}}`,
		"record garbled":                       `{"annotations":{"` + n.Record + `":"x"}}`,
		"everything removed":                   `{"labels":null,"annotations":null}`,
		"record of an epoch that never was": `{"annotations":{"` + n.Record + `":null},"labels":{"` + n.Shard +
			`":"b","` + n.Drain + `":"x"}}`,
	} {
		for _, all := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inCluster(t, func(t *testing.T, k *cluster) {
					c := k.config()
					c.WatchAll, c.ScanInterval = all, 20*time.Second
					stop, _ := k.settledWith(20, c, "a", "b")
					defer stop()
					before := k.owners()
					k.edit(object, `{"metadata":`+edit+`}`)
					if all {
						time.Sleep(5 * time.Second)
					} else {
						time.Sleep(c.ScanInterval + 5*time.Second)
					}
					k.requirePlaced(20, "a", "b")
					assert.Equal(t, before, k.owners(), "it is back where it was")
					patched := 0
					for _, count := range k.patched() {
						patched += count
					}
					assert.LessOrEqual(t, patched, 1)
				})
			})
		}
	}
}

// The sharder asks each shard that may work on an object when a user strips the object.
func TestABlankObjectIsProbedWhileTheRingIsUnsettled(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(60, k.config(), "a", "b")
		defer stop()
		stubborn(true, shards...) // so that the ring stays unsettled
		k.shard("c")
		time.Sleep(5 * time.Second)
		var moving string
		for _, o := range k.objects() {
			if k.keys.Draining(&o) {
				moving = o.Name
				break
			}
		}
		require.NotEmpty(t, moving)
		k.patched()
		k.edit(moving, `{"metadata":{"labels":null,"annotations":null}}`)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]int{"probe": 1}, k.patched())
		o, err := k.kube.CoreV1().ConfigMaps("default").Get(t.Context(), moving, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Contains(t, []string{"a", "b"}, k.keys.ShardOf(o))
		assert.True(t, k.keys.Draining(o))

		stubborn(false, shards...)
		time.Sleep(time.Minute)
		k.requirePlaced(60, "a", "b", "c")
	})
}

func TestWithoutItsHistoryASharderAsksEveryShard(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(20, k.config(), "a", "b")
		stop()
		require.NoError(t,
			k.kube.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), HistoryName(testRing),
				metav1.DeleteOptions{}))
		k.edit("o-000", `{"metadata":{"labels":null,"annotations":null}}`)
		defer k.sharder(k.config())()
		time.Sleep(30 * time.Second)
		k.requirePlaced(20, "a", "b")
		assert.Equal(t, map[string]int{"probe": 1, "assign": 1}, k.patched())
		assert.EqualValues(t, 1, shards[0].acks.Load()+shards[1].acks.Load())
	})
}

func TestADeletedLeaseProvesNothingForTwiceItsDuration(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(40, k.config(), "a", "b")
		defer stop()
		moved := k.owners()["b"]
		shards[1].kill()
		require.NoError(t,
			k.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		time.Sleep(29 * time.Second)
		assert.Empty(t, k.patched())
		time.Sleep(10 * time.Second)
		k.requirePlaced(40, "a")
		assert.Equal(t, map[string]int{"assign": moved}, k.patched())
		l, err := k.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shardlease.Sharder, *l.Spec.HolderIdentity)
	})
}

func TestCustomAndClusterScopedResourcesAndNamespaces(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
		c := k.config()
		c.Resources = []api.Resource{
			{GVR: namespaces},
			{
				GVR: ringtest.Widgets, Namespaces: []string{"x", "y"}, Key: api.NamespaceKey,
				Selector: ringtest.SelectorOf(t, "sharded=true"),
			},
		}
		stop := k.sharder(c)
		defer stop()
		k.shard("a")
		k.shard("b")
		time.Sleep(time.Second) // both are members before there is an object: these shards never let go of a widget
		for i := range 10 {
			_, err := k.kube.CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			for _, ns := range []string{"x", "y", "z"} {
				k.createWidget(ns, fmt.Sprintf("w%d", i), map[string]any{"sharded": "true"})
				k.createWidget(ns, fmt.Sprintf("v%d", i), nil)
			}
		}
		time.Sleep(20 * time.Second)
		count := func(gvr schema.GroupVersionResource) map[string]int {
			list, err := k.meta.Resource(gvr).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			count := map[string]int{}
			for _, o := range list.Items {
				count[o.Namespace+":"+k.keys.ShardOf(&o)]++
			}
			return count
		}
		of := count(namespaces)
		assert.Equal(t, 10, of[":a"]+of[":b"])
		of = count(ringtest.Widgets)
		assert.Equal(t, 10, of["x:a"]+of["x:b"])
		assert.Contains(t, []int{0, 10}, of["x:a"], "objects of one namespace are together")
		assert.Contains(t, []int{0, 10}, of["y:a"])
		assert.Equal(t, 10, of["x:"], "not selected")
		assert.Equal(t, 20, of["z:"], "another namespace")
	})
}

func (k *cluster) createWidget(namespace, name string, labels map[string]any) {
	k.t.Helper()
	client, err := dynamic.NewForConfig(k.server.Client("user").Config())
	require.NoError(k.t, err)
	_, err = client.Resource(ringtest.Widgets).Namespace(namespace).Create(k.t.Context(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": ringtest.Widgets.GroupVersion().String(), "kind": "Widget",
			"metadata": map[string]any{"name": name, "labels": labels},
		}}, metav1.CreateOptions{})
	require.NoError(k.t, err)
}

// A patch fails if another client changes the object after the decision. The sharder reads only
// that object and decides again.
func TestAConflictIsDecidedAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(5, k.config(), "a")
		defer stop()
		k.connection.Inject(apisim.Faults{Latency: 100 * time.Millisecond})
		from := len(k.server.Trace())
		k.create(1, "new")
		time.Sleep(50 * time.Millisecond) // the patch is on its way
		k.edit("new-000", `{"data":{"x":"y"}}`)
		time.Sleep(2 * time.Second)
		k.requirePlaced(6, "a")
		assert.Equal(t, map[string]int{"assign": 1}, k.patched())
		var requests []string
		for _, r := range k.server.Trace()[from:] {
			if r.Client == "sharder" {
				requests = append(requests, fmt.Sprint(r.Method, " ", r.Code))
			}
		}
		require.GreaterOrEqual(t, len(requests), 3)
		assert.Equal(t, []string{"PATCH 409", "GET 200", "PATCH 200"}, requests[:3])
		assert.Zero(t, k.requests(from)["LIST configmaps"])
	})
}

func TestAFailingPatchIsTriedAgain(t *testing.T) {
	for name, fault := range map[string]apisim.Faults{
		"request lost":  {LoseRequest: ringtest.IsPatch},
		"response lost": {LoseResponse: ringtest.IsPatch},
		"refused":       {Refuse: ringtest.IsPatch},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(_ *testing.T, k *cluster) {
				stop, _ := k.settledWith(5, k.config(), "a")
				defer stop()
				k.connection.Inject(fault)
				k.create(20, "new")
				time.Sleep(time.Minute)
				k.connection.Inject(apisim.Faults{})
				time.Sleep(time.Minute)
				k.requirePlaced(25, "a")
			})
		})
	}
}

// requests counts the requests of the sharder by verb and resource, such as "LIST configmaps". It
// skips the first from entries of the trace, and conflicts.
func (k *cluster) requests(from int) map[string]int {
	count := map[string]int{}
	for _, r := range k.server.Trace()[from:] {
		if r.Client != "sharder" || r.Code == http.StatusConflict { // two watches may report one change
			continue
		}
		verb, path := r.Method, strings.Split(r.Path, "/")
		resource := path[len(path)-1]
		switch {
		case strings.Contains(r.Query, "watch=true"):
			verb = "WATCH"
		case r.Method == http.MethodGet && (resource == "configmaps" || resource == "leases"):
			verb = "LIST"
		default:
			resource = path[len(path)-2]
		}
		count[verb+" "+resource]++
	}
	return count
}

func TestRequestsAreBounded(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.PageSize, c.ScanInterval = 10, time.Hour
		stop, shards := k.settledWith(95, c, "a", "b", "c")
		defer stop()
		const pages = 10 // the ring's history is a ConfigMap too

		from := len(k.server.Trace())
		time.Sleep(6 * time.Minute)
		quiet := k.requests(from)
		assert.Zero(t, quiet["LIST configmaps"]+quiet["PATCH configmaps"]+quiet["GET configmaps"], "%v", quiet)

		from = len(k.server.Trace())
		k.shard("d")
		time.Sleep(time.Minute)
		moved := k.owners()["d"]
		joined := k.requests(from)
		assert.Equal(t, moved, joined["PATCH configmaps"], "and as many of the shards")
		assert.LessOrEqual(t, joined["LIST configmaps"], 2*pages+1, "two scans, and the list of a watch: %+v", k.scans)
		assert.Equal(t, 2, joined["PUT configmaps"], "the ring's history")

		from = len(k.server.Trace())
		moved = k.owners()["b"]
		shards[1].release()
		time.Sleep(time.Minute)
		left := k.requests(from)
		assert.Equal(t, moved, left["PATCH configmaps"])
		assert.LessOrEqual(t, left["LIST configmaps"], pages+(moved+9)/10+1, "its objects, and a scan")
		assert.Equal(t, 2, left["PUT configmaps"])
	})
}

func TestASettledSharderHoldsNoObject(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var s *Sharder
		c := k.config()
		k.connection = k.server.Client("sharder")
		kube, meta := k.clients(k.connection)
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		defer k.begin(func(ctx context.Context) { _ = s.Run(ctx) })()
		k.shard("a")
		k.create(300, "o")
		time.Sleep(time.Minute)
		status, ok := s.Status()
		require.True(t, ok)
		assert.Equal(t, Status{Members: []string{"a"}, Settled: true}, status)
		e := s.session.Load()
		assert.Empty(t, e.queue.items)
		assert.Zero(t, e.queue.delayed)
		assert.Empty(t, e.drains.open)
	})
}

func TestAStoppedSharderWritesNothingMore(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		c.Concurrency = 1
		stop, _ := k.settledWith(5, c, "a")
		k.connection.Inject(apisim.Faults{Latency: 100 * time.Millisecond})
		k.create(100, "new")
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		assert.Zero(t, time.Since(began), "it does not wait for answers")
		time.Sleep(100 * time.Millisecond) // requests on their way arrive
		synctest.Wait()                    // also those that arrive in this instant
		before := k.owners()["-"]
		require.Positive(t, before)
		time.Sleep(time.Minute)
		assert.Equal(t, before, k.owners()["-"])
	})
}

func TestExplainAndPlanSayWhatWouldHappen(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.config(), "a", "b")
		stop()
		kube, meta := k.clients(k.server.Client("user"))
		s, err := New(kube, meta, ringtest.TestMapper(), testConfig())
		require.NoError(t, err)
		object := api.ObjectRef{GVR: ringtest.ConfigMaps, Namespace: "default", Name: "o-000"}
		x, err := s.Explain(t.Context(), object)
		require.NoError(t, err)
		assert.Equal(t, "keep", x.Verb)
		assert.Equal(t, x.Target, x.Owner)
		assert.Equal(t, x.Target, x.Label)

		k.edit("o-000", `{"metadata":{"labels":{"`+k.keys.Shard+`":"x"}}}`)
		x, err = s.Explain(t.Context(), object)
		require.NoError(t, err)
		assert.Equal(t, "restore", x.Verb)
		assert.Contains(t, x.Why, "its record says that shard")

		f, err := s.Plan(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, f.Members)
		assert.Equal(t, 30, f.Objects)
		require.Len(t, f.Moves, 3)
		assert.Equal(t, "x", f.Moves[2].From)

		for _, s := range shards {
			s.release()
		}
		_, err = s.Plan(t.Context())
		assert.ErrorContains(t, err, "there is no shard")
		x, err = s.Explain(t.Context(), object)
		require.NoError(t, err)
		assert.Equal(t, "there is no shard", x.Why)
		_, err = s.Explain(t.Context(), api.ObjectRef{GVR: ringtest.Widgets})
		assert.ErrorContains(t, err, "is not in the ring")
	})
}
