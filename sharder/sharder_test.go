package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestObjectsAreAssignedToTheOnlyShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.create(20, "early")
		stop := w.sharder(w.config())
		time.Sleep(time.Second)
		assert.Equal(t, map[string]int{"-": 20}, w.owners(), "there is no shard yet")
		assert.Empty(t, w.patched())

		a := w.shard("a")
		time.Sleep(5 * time.Second)
		w.requirePlaced(20, "a")
		assert.Equal(t, map[string]int{"assign": 20}, w.patched(), "one patch each")
		assert.Equal(t, []string{"members [a]", "settled [a]"}, w.told())

		w.create(5, "late")
		time.Sleep(100 * time.Millisecond)
		w.requirePlaced(25, "a")
		assert.Equal(t, map[string]int{"assign": 5}, w.patched())
		a.release()
		stop()
	})
}

// settledWith begins a ring of shards with n objects, and a sharder.
func (w *world) settledWith(n int, c Config, names ...string) (stop func(), shards []*shard) {
	w.t.Helper()
	for _, name := range names {
		shards = append(shards, w.shard(name))
	}
	time.Sleep(time.Second)
	stop = w.sharder(c)
	time.Sleep(time.Second)
	w.create(n, "o")
	time.Sleep(20 * time.Second)
	w.requirePlaced(n, names...)
	require.Equal(w.t, map[string]int{"assign": n}, w.patched())
	w.told()
	return stop, shards
}

func TestAJoiningShardGetsItsPartByDrains(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b")
		defer stop()
		before := w.owners()
		shards = append(shards, w.shard("c"))
		time.Sleep(30 * time.Second)
		after := w.owners()
		w.requirePlaced(60, "a", "b", "c")
		moved := after["c"]
		assert.Equal(t, map[string]int{"a": before["a"] - after["a"], "b": before["b"] - after["b"]}, map[string]int{"a": int(shards[0].acks.Load()), "b": int(shards[1].acks.Load())})
		assert.Equal(t, map[string]int{"drain": moved, "assign": moved}, w.patched(), "and as many acknowledgements")
		assert.Equal(t, []string{"members [a b c]", "settled [a b c]"}, w.told())
		for _, s := range shards {
			s.release()
		}
	})
}

func TestAReleasedShardsObjectsMoveAtOnceWithoutDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b", "c")
		defer stop()
		moved := w.owners()["b"]
		shards[1].release()
		time.Sleep(time.Second)
		w.requirePlaced(60, "a", "c")
		assert.Equal(t, map[string]int{"assign": moved}, w.patched())
	})
}

func TestADeadShardsLeaseIsTakenOnceAndItsObjectsMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b", "c")
		defer stop()
		moved := w.owners()["b"]
		shards[1].kill()
		time.Sleep(26 * time.Second) // at most 30 s after its last renewal
		assert.Empty(t, w.patched())
		assert.Empty(t, w.told())
		time.Sleep(10 * time.Second)
		w.requirePlaced(60, "a", "c")
		assert.Equal(t, map[string]int{"assign": moved}, w.patched())
		assert.Equal(t, []string{"taken b", "members [a c]", "settled [a c]"}, w.told())

		// It comes back, in its next epoch.
		w.shard("b")
		time.Sleep(time.Minute)
		w.requirePlaced(60, "a", "b", "c")
		assert.Equal(t, map[string]int{"drain": moved, "assign": moved}, w.patched())
	})
}

func TestARestartWithinTheGraceMovesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b", "c")
		defer stop()
		shards[1].kill()
		w.shard("b") // waits for D
		time.Sleep(time.Minute)
		w.requirePlaced(60, "a", "b", "c")
		assert.Empty(t, w.patched())
		assert.Empty(t, w.told())
	})
}

func TestAReleaseAndReturnThatNobodyHasSeenSeparatelyIsSeen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b", "c")
		stop()
		moved := w.owners()["-"] + w.owners()["b"]
		shards[1].release()
		w.shard("b")
		time.Sleep(5 * time.Second)
		assert.Equal(t, moved, w.owners()["-"], "records of an epoch that is over")
		defer w.sharder(w.config())()
		time.Sleep(30 * time.Second)
		w.requirePlaced(60, "a", "b", "c")
		assert.Equal(t, map[string]int{"assign": moved}, w.patched())
	})
}

func TestAShardThatDiesWhileItIsDrainedLosesItsObjectsWithoutAcknowledgement(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b")
		defer stop()
		stubborn(true, shards[0])
		w.shard("c")
		time.Sleep(20 * time.Second)
		draining := w.owners()["-"]
		require.Positive(t, draining)
		shards[0].kill()
		time.Sleep(time.Minute)
		w.requirePlaced(60, "b", "c")
		assert.Zero(t, shards[0].acks.Load())
	})
}

func TestASharderThatTakesOverInTheMiddleOfARebalanceFinishesIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.MaxDrains, c.Concurrency = 2, 1
		stop, _ := w.settledWith(60, c, "a", "b")
		w.connection.Inject(apisim.Faults{Latency: 20 * time.Millisecond})
		w.shard("c")
		time.Sleep(time.Second)
		stop()
		patched := w.patched()
		require.Positive(t, patched["drain"])
		time.Sleep(time.Second)
		require.Less(t, w.owners()["c"], 15)
		assert.Empty(t, w.patched(), "after Run has returned nothing is written")
		defer w.sharder(c)()
		time.Sleep(30 * time.Second)
		w.requirePlaced(60, "a", "b", "c")
		drained := patched["drain"] + w.patched()["drain"]
		assert.LessOrEqual(t, drained, w.owners()["c"], "nothing is drained twice")
		assert.GreaterOrEqual(t, drained, w.owners()["c"]-c.Concurrency, "the answers that the first did not wait for")
		assert.Contains(t, w.told(), "settled [a b c]")
	})
}

func TestDrainsAreLimited(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.MaxDrains = 3
		stop, shards := w.settledWith(60, c, "a", "b")
		defer stop()
		stubborn(true, shards...)
		w.shard("c")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, 3, w.owners()["-"])
		told := w.told()
		assert.Equal(t, "members [a b c]", told[0])
		assert.Len(t, told, 4, "three are overdue: %v", told)

		assigned := w.owners()["a"]
		w.create(20, "new") // nobody waits for those that are stuck
		time.Sleep(2 * time.Second)
		assert.Greater(t, w.owners()["a"], assigned)
		assert.Equal(t, 3, w.draining())

		stubborn(false, shards...)
		time.Sleep(2 * time.Minute)
		w.requirePlaced(80, "a", "b", "c")
		assert.Contains(t, w.told(), "settled [a b c]")
	})
}

func TestADeadShardsLeaseIsDeletedInTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.GCPeriod = 10 * time.Minute
		stop, shards := w.settledWith(10, c, "a", "b")
		defer stop()
		shards[1].release()
		time.Sleep(9 * time.Minute)
		_, err := w.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, []string{"members [a]", "settled [a]", "collected b"}, w.told())
	})
}

func TestALeaseIsKeptWhileAnObjectCarriesItsLabel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		c := w.config()
		c.Resources[0].Selector, c.GCPeriod, c.ScanInterval = selectorOf(t, "sharded=true"), time.Minute, time.Minute
		stop := w.sharder(c)
		defer stop()
		w.shard("a")
		b := w.shard("b")
		w.create(1, "o")
		w.edit("o-000", `{"metadata":{"labels":{"`+w.names.shard+`":"b"}}}`)
		time.Sleep(time.Second)
		b.release()
		time.Sleep(5 * time.Minute)
		assert.NotContains(t, w.told(), "collected b")
		w.edit("o-000", `{"metadata":{"labels":{"`+w.names.shard+`":null}}}`)
		time.Sleep(2 * time.Minute)
		assert.Contains(t, w.told(), "collected b")
	})
}

func TestWhenHalfOfTheShardsExpireTogetherTheyGetMoreTime(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(30, w.config(), "a", "b", "c")
		defer stop()
		shards[1].kill()
		shards[2].kill()
		time.Sleep(40 * time.Second)
		assert.Equal(t, []string{"storm [b c]"}, w.told())
		time.Sleep(10 * time.Second)
		w.requirePlaced(30, "a")
		assert.Subset(t, w.told(), []string{"taken b", "taken c", "settled [a]"})
	})
}

// stubborn makes shards hold on to their objects, or let go of them.
func stubborn(hold bool, shards ...*shard) {
	for _, s := range shards {
		s.stubborn.Store(hold)
	}
}

// draining is how many objects are drained.
func (w *world) draining() (n int) {
	for _, o := range w.objects() {
		if w.names.draining(&o) {
			n++
		}
	}
	return n
}

// edit patches an object as a user does.
func (w *world) edit(name, patch string) {
	w.t.Helper()
	_, err := w.kube.CoreV1().ConfigMaps("default").Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

func TestEditsOfUsersAreRepaired(t *testing.T) {
	const object = "o-007"
	n := namesOf(testRing)
	for name, edit := range map[string]string{
		"label removed":                        `{"labels":{"` + n.shard + `":null}}`,
		"label set to a shard that is unknown": `{"labels":{"` + n.shard + `":"x"}}`,
		"label set to a":                       `{"labels":{"` + n.shard + `":"a"}}`,
		"label set to b":                       `{"labels":{"` + n.shard + `":"b"}}`,
		"drain label set":                      `{"labels":{"` + n.drain + `":""}}`,
		"record removed":                       `{"annotations":{"` + n.owner + `":null}}`,
		"record garbled":                       `{"annotations":{"` + n.owner + `":"x"}}`,
		"everything removed":                   `{"labels":null,"annotations":null}`,
		"record of an epoch that never was":    `{"annotations":{"` + n.owner + `":null},"labels":{"` + n.shard + `":"b","` + n.drain + `":"x"}}`,
	} {
		for _, all := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					c := w.config()
					c.WatchAll, c.ScanInterval = all, time.Minute
					stop, _ := w.settledWith(20, c, "a", "b")
					defer stop()
					before := w.owners()
					w.edit(object, `{"metadata":`+edit+`}`)
					if all {
						time.Sleep(5 * time.Second)
					} else {
						time.Sleep(c.ScanInterval + 5*time.Second)
					}
					w.requirePlaced(20, "a", "b")
					assert.Equal(t, before, w.owners(), "it is back where it was")
					patched := 0
					for _, count := range w.patched() {
						patched += count
					}
					assert.LessOrEqual(t, patched, 1)
				})
			})
		}
	}
}

// Somebody strips an object while two shards may have worked on it: each of them is asked.
func TestABlankObjectIsProbedWhileTheRingIsUnsettled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(60, w.config(), "a", "b")
		defer stop()
		stubborn(true, shards...) // so that the ring stays unsettled
		w.shard("c")
		time.Sleep(5 * time.Second)
		var moving string
		for _, o := range w.objects() {
			if w.names.draining(&o) {
				moving = o.Name
				break
			}
		}
		require.NotEmpty(t, moving)
		w.patched()
		w.edit(moving, `{"metadata":{"labels":null,"annotations":null}}`)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]int{"probe": 1}, w.patched())
		o, err := w.kube.CoreV1().ConfigMaps("default").Get(t.Context(), moving, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Contains(t, []string{"a", "b"}, w.names.shardOf(o))
		assert.True(t, w.names.draining(o))

		stubborn(false, shards...)
		time.Sleep(time.Minute)
		w.requirePlaced(60, "a", "b", "c")
	})
}

func TestWithoutItsHistoryASharderAsksEveryShard(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(20, w.config(), "a", "b")
		stop()
		require.NoError(t, w.kube.CoreV1().ConfigMaps(testNamespace).Delete(t.Context(), HistoryName(testRing), metav1.DeleteOptions{}))
		w.edit("o-000", `{"metadata":{"labels":null,"annotations":null}}`)
		defer w.sharder(w.config())()
		time.Sleep(30 * time.Second)
		w.requirePlaced(20, "a", "b")
		assert.Equal(t, map[string]int{"probe": 1, "assign": 1}, w.patched())
		assert.EqualValues(t, 1, shards[0].acks.Load()+shards[1].acks.Load())
	})
}

func TestADeletedLeaseProvesNothingForTwiceItsDuration(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, shards := w.settledWith(40, w.config(), "a", "b")
		defer stop()
		moved := w.owners()["b"]
		shards[1].kill()
		require.NoError(t, w.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))
		time.Sleep(29 * time.Second)
		assert.Empty(t, w.patched())
		time.Sleep(10 * time.Second)
		w.requirePlaced(40, "a")
		assert.Equal(t, map[string]int{"assign": moved}, w.patched())
		l, err := w.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, shardlease.Sharder, *l.Spec.HolderIdentity)
	})
}
