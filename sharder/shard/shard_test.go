package shard

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestWorkIsDoneOnWhatIsAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			o := w.create("x")
			synctest.Wait()
			assert.ErrorIs(t, r.do(o), ErrNotYet, "the cache might not show it yet")
			assert.Nil(t, r.cached("x"), "only its own objects are in a shard's cache")
			o = r.assign("x")
			assert.NoError(t, r.do(o))
			assert.NoError(t, r.do(r.cached("x")))

			failure := errors.New("failure")
			assert.Equal(t, failure, r.shard.Do(r.ctx, o, func(context.Context) error { return failure }))

			w.set("x", "b", false,
				&protocol.Record{UID: o.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned})
			synctest.Wait()
			assert.ErrorIs(t, r.do(o), ErrNotMine)
			assert.Empty(t, r.hooks())
		}))
	})
}

func TestADrainIsAcknowledgedWhenNoWorkIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			end, endOther := r.work(o), r.work(o) // of two controllers
			w.set("x", "a", true, nil)
			synctest.Wait()
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			require.NoError(t, end())
			synctest.Wait()
			w.drainedStill("x")
			require.NoError(t, endOther())
			synctest.Wait()
			w.acknowledged("x")
			assert.Equal(t, []string{"drain x"}, r.hooks())
			assert.ErrorIs(t, r.do(o), ErrNotMine)
			assert.Empty(t, r.remembered(), "all caches have passed the floor")

			again := r.assign("x") // and back
			assert.NoError(t, r.do(again))
			assert.ErrorIs(t, r.do(o), ErrNotYet, "somebody else may have worked on it since then")
		}))
	})
}

func TestWorkOnADrainedObjectIsGivenSomeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.replica(Config{AckGrace: 5 * time.Second}).run(func(r *replica) {
			w.create("x")
			w.create("y")
			endX, endY := r.work(r.assign("x")), r.work(r.assign("y"))
			w.set("x", "a", true, nil)
			time.Sleep(5*time.Second - time.Millisecond)
			w.drainedStill("x")
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			assert.ErrorIs(t, endX(), ErrDrained)
			synctest.Wait()
			w.acknowledged("x")
			assert.NoError(t, endY())
		}))
	})
}

func TestADrainMayBeWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			end := r.work(o)
			w.set("x", "a", true, nil)
			synctest.Wait()
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			w.set("x", "a", false, nil)
			synctest.Wait()
			assert.NoError(t, r.do(r.cached("x")))
			time.Sleep(time.Minute)
			assert.NoError(t, end())
			assert.Empty(t, r.hooks())
			assert.Empty(t, r.remembered())
		}))
	})
}

// Work that goes on outside of Do has until then to end.
func TestAShardLetsGoWhenItHasBeenQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.replica(Config{Quiet: 2 * time.Second}).run(func(r *replica) {
			w.create("x")
			w.create("y")
			x, y := r.assign("x"), r.assign("y")
			assert.NoError(t, r.do(x), "long before the drain")
			time.Sleep(time.Minute)
			end := r.work(y)
			w.set("x", "a", true, nil)
			w.set("y", "a", true, nil)
			time.Sleep(2*time.Second - time.Millisecond)
			w.drainedStill("x")
			assert.ErrorIs(t, r.do(x), ErrNotYet)
			time.Sleep(requestPoll)
			synctest.Wait()
			w.acknowledged("x")

			time.Sleep(3 * time.Second)
			require.NoError(t, end())
			time.Sleep(2*time.Second - time.Millisecond)
			w.drainedStill("y")
			assert.ErrorIs(t, r.do(y), ErrNotYet)
			time.Sleep(requestPoll)
			synctest.Wait()
			w.acknowledged("y")
			assert.Empty(t, r.remembered())
		}))
	})
}

func TestADrainMayBeWithdrawnWhileTheShardIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.replica(Config{Quiet: 5 * time.Second}).run(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			w.set("x", "a", true, nil)
			time.Sleep(4 * time.Second)
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			w.set("x", "a", false, nil)
			time.Sleep(time.Second) // it polls
			assert.NoError(t, r.do(r.cached("x")))
			assert.Empty(t, r.hooks())
			time.Sleep(time.Minute)
			w.set("x", "a", true, nil)
			time.Sleep(4 * time.Second)
			w.drainedStill("x")
			time.Sleep(2 * time.Second)
			w.acknowledged("x")
		}))
	})
}

func TestAProbedShardAcknowledgesWithoutEverWorking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			left := protocol.OwnerEpoch{Shard: "b", LeaseUID: "l", Epoch: 1}
			o := w.create("x")
			w.set("x", "a", true, r.owned(o, left))
			synctest.Wait()
			w.acknowledged("x")
			rec, _ := r.keys.RecordOf(w.get("x"))
			assert.Equal(t, []protocol.OwnerEpoch{left}, rec.Left, "it is for the sharder to ask them")
		}))
	})
}

func TestAnObjectWithTheLabelOnlyIsSentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			o := w.create("x")
			for name, rec := range map[string]*protocol.Record{
				"none":            nil,
				"another's":       {UID: o.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned},
				"a copied one":    {UID: "v", Shard: "a", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned},
				"acknowledgement": {UID: o.UID, Shard: "a", LeaseUID: "l", Epoch: 1, State: protocol.StateFree},
			} {
				before := w.set("x", "a", true, rec)
				synctest.Wait()
				after := w.get("x")
				assert.NotContains(t, after.Labels, w.keys.Shard, name)
				assert.NotContains(t, after.Labels, w.keys.Drain, name)
				assert.Equal(t, before.Annotations, after.Annotations, name)
				assert.Equal(t, []string{"bounce x"}, r.hooks(), name)
			}
			w.set("x", "a", false,
				&protocol.Record{UID: o.UID, Shard: "a", LeaseUID: "l", Epoch: 7, State: protocol.StateOwned})
			synctest.Wait()
			assert.Empty(t, r.hooks(), "an object of another epoch is the sharder's business")
			assert.ErrorIs(t, r.do(r.cached("x")), ErrNotMine)
		}))
	})
}

func TestWhatIsSentBackIsTheVersionThatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			o := w.create("x")
			r.conn.Inject(apisim.Faults{Latency: time.Second})
			w.set("x", "a", false, nil)
			time.Sleep(500 * time.Millisecond) // the patch is on its way
			w.set("x", "a", false, r.owned(o))
			time.Sleep(time.Minute)
			assert.Equal(t, "a", w.get("x").Labels[w.keys.Shard])
			assert.Equal(t, []string{"failed bounce x"}, r.hooks())
		}))
	})
}

func TestACacheThatLagsBehindAllowsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			late := r.lagging(time.Minute)
			require.Len(t, late.GetStore().List(), 1)
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.acknowledged("x")
			assert.Len(t, late.GetStore().List(), 1, "it still shows what was assigned")
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			time.Sleep(59 * time.Second)
			assert.ErrorIs(t, r.do(o), ErrNotYet, "the floor stays for as long as a cache is below it")
			time.Sleep(10 * time.Second)
			assert.ErrorIs(t, r.do(o), ErrNotMine)
			assert.Empty(t, r.remembered())
		}))
	})
}

// A shard has let go of an object, and has it again. One of its caches still shows the copy from
// before, and another shard may have written to the object since.
func TestACopyFromBeforeAHandoverAllowsNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			before := r.assign("x")
			late := r.lagging(time.Minute)
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.acknowledged("x")
			between := w.get("x")
			after := r.assign("x")
			require.Equal(t, before.ResourceVersion, late.GetStore().List()[0].(*corev1.ConfigMap).ResourceVersion)
			assert.ErrorIs(t, r.do(before), ErrNotYet)
			assert.ErrorIs(t, r.do(between), ErrNotYet, "it was read while it was no shard's")
			assert.NoError(t, r.do(after))
			time.Sleep(2 * time.Minute)
			require.Equal(t, after.ResourceVersion, late.GetStore().List()[0].(*corev1.ConfigMap).ResourceVersion)
			assert.ErrorIs(t, r.do(before), ErrNotYet)
			assert.NoError(t, r.do(after))
			assert.Empty(t, r.remembered())
		}))
	})
}

// No work begins while an acknowledgement is in doubt. It is carried out, its response is lost, and
// another shard gets the object before this shard knows.
func TestNoWorkBeginsWhileAnAcknowledgementIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			late := r.lagging(time.Hour)
			r.conn.Inject(apisim.Faults{LoseResponse: ringtest.IsPatch})
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.acknowledged("x")
			w.set("x", "b", false,
				&protocol.Record{UID: o.UID, Shard: "b", LeaseUID: "l", Epoch: 1, State: protocol.StateOwned})
			synctest.Wait()
			require.NotContains(t, late.GetStore().List()[0].(*corev1.ConfigMap).Labels, w.keys.Drain)
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			r.conn.Inject(apisim.Faults{Refuse: apisim.Always})
			time.Sleep(time.Minute)
			assert.Equal(t, protocol.AckUncertain, r.known(o).drainState, "only a live read can tell")
			assert.ErrorIs(t, r.do(o), ErrNotYet)
			r.conn.Inject(apisim.Faults{})
			time.Sleep(time.Minute)
			assert.Equal(t, protocol.Accepting, r.known(o).drainState)
			assert.Equal(t, w.get("x").ResourceVersion, r.known(o).floor)
			assert.ErrorIs(t, r.do(o), ErrNotYet, "the other cache shows it as it was")
			assert.Equal(t, []string{"failed drain x"}, r.hooks())
		}))
	})
}

func TestAnAcknowledgementThatGotLostIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			r.assign("x")
			r.conn.Inject(apisim.Faults{LoseRequest: ringtest.IsPatch})
			w.set("x", "a", true, nil)
			time.Sleep(5 * time.Second)
			w.drainedStill("x")
			r.conn.Inject(apisim.Faults{})
			time.Sleep(10 * time.Second)
			w.acknowledged("x")
			assert.Equal(t, []string{"failed drain x", "drain x"}, r.hooks())
		}))
	})
}

func TestADrainThatWasWithdrawnIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			r.assign("x")
			r.conn.Inject(apisim.Faults{Latency: time.Second})
			w.set("x", "a", true, nil)
			time.Sleep(500 * time.Millisecond) // the acknowledgement is on its way
			w.set("x", "a", false, nil)
			time.Sleep(time.Minute)
			assert.Equal(t, "a", w.get("x").Labels[w.keys.Shard])
			assert.Equal(t, []string{"failed drain x"}, r.hooks())
			assert.NoError(t, r.do(r.cached("x")))
			assert.Empty(t, r.remembered())
		}))
	})
}

func TestAnObjectThatIsGoneIsNotWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			r.lagging(time.Minute)
			r.conn.Inject(apisim.Faults{LoseResponse: ringtest.IsPatch})
			w.set("x", "a", true, nil)
			synctest.Wait()
			require.NoError(t, w.admin.CoreV1().ConfigMaps("default").Delete(t.Context(), "x", metav1.DeleteOptions{}))
			again := w.create("x")
			require.NotEqual(t, o.UID, again.UID)
			time.Sleep(20 * time.Second)
			assert.Equal(t, protocol.Accepting, r.known(o).drainState)
			assert.ErrorIs(t, r.do(o), ErrNotYet, "the other cache still shows it")
			r.conn.Inject(apisim.Faults{})
			assert.NoError(t, r.do(r.assign("x")), "what has its name is another object")
			time.Sleep(2 * time.Minute)
			assert.ErrorIs(t, r.do(o), ErrNotMine)
			assert.Empty(t, r.remembered())
		}))
	})
}

func TestAnAcknowledgementWaitsForRequestsOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			client := r.client()
			r.conn.Inject(apisim.Faults{LoseResponse: func(q *http.Request) bool { return q.Method == http.MethodPut }})
			assert.Error(t, r.shard.Do(r.ctx, o, func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err := client.CoreV1().ConfigMaps("default").Update(ctx, o, metav1.UpdateOptions{})
				return err
			}))
			r.conn.Inject(apisim.Faults{})
			assert.NoError(t, r.do(w.get("x")), "it is still this shard's")
			w.set("x", "a", true, nil)
			// The request is cut off after a margin of 3 s. The server was asked to try for the
			// rest of the term, 9 to 12 s. Then another margin follows.
			time.Sleep(13 * time.Second)
			w.drainedStill("x")
			assert.ErrorIs(t, r.do(w.get("x")), ErrNotYet)
			time.Sleep(7 * time.Second)
			w.acknowledged("x")
			time.Sleep(time.Minute)
			w.create("y")
			assert.NoError(t, r.do(r.assign("y")))
			assert.Empty(t, r.remembered())
		}))
	})
}

func TestTheLeaseIsNotReleasedDuringWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		holder := func() string {
			l, err := w.admin.CoordinationV1().Leases("default").Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			return *l.Spec.HolderIdentity
		}
		var end func() error
		released, left := make(chan error, 1), make(chan *replica, 1)
		go func() {
			released <- w.within(func(r *replica) {
				w.create("x")
				ctx := r.ctx
				r.ctx = context.WithoutCancel(ctx) // of work that is left behind
				end = r.work(r.assign("x"))
				left <- r
			})
		}()
		r := <-left
		time.Sleep(time.Minute)
		assert.Equal(t, "a", holder())
		assert.ErrorIs(t, r.do(w.get("x")), ErrNotMine, "no more work begins")
		assert.NoError(t, end())
		assert.NoError(t, <-released)
		assert.Empty(t, holder())
	})
}

func TestWorkEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.ErrorIs(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			end := r.work(o)
			require.NoError(t,
				w.admin.CoordinationV1().Leases("default").Delete(t.Context(), "a", metav1.DeleteOptions{}))
			synctest.Wait()
			assert.ErrorIs(t, end(), shardlease.ErrLost)
			assert.ErrorIs(t, r.do(o), ErrNotMine)
			r.ctx = context.WithoutCancel(r.ctx)
			assert.ErrorIs(t, r.do(o), ErrNotMine)
		}), shardlease.ErrLost)
	})
}

// jump is the clock of a process that is suspended for a while.
type jump struct {
	shardlease.Clock
	ahead *atomic.Int64
}

func (j jump) Now() clock.Reading {
	now := j.Clock.Now()
	now.Monotonic += time.Duration(j.ahead.Load())
	now.Wall = now.Wall.Add(time.Duration(j.ahead.Load()))
	return now
}

// looked is an object that calls at when its resourceVersion is read.
type looked struct {
	*corev1.ConfigMap
	at func()
}

func (l looked) GetResourceVersion() string {
	l.at()
	return l.ConfigMap.GetResourceVersion()
}

func TestAProcessThatWasStoppedWhileItAskedDoesNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		clock := jump{clock.System(), new(atomic.Int64)}
		assert.ErrorIs(t, w.replicaWith(clock, Config{}).run(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			suspend := func() { clock.ahead.Store(int64(time.Minute)) }
			assert.ErrorIs(t, r.shard.Do(r.ctx, looked{o, suspend}, func(context.Context) error {
				assert.Fail(t, "the lease was lost before")
				return nil
			}), ErrNotMine)
			assert.Empty(t, r.remembered())
		}), shardlease.ErrLost)
	})
}

// An informer ends while an acknowledgement is in doubt. The next one resolves it.
func TestDoubtsOutliveAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			ctx := r.ctx
			r.conn.Inject(apisim.Faults{LoseResponse: ringtest.IsPatch})
			w.set("x", "a", true, nil)
			synctest.Wait()
			r.stop()
			r.running.Wait()
			r.ctx = ctx
			assert.Equal(t, protocol.AckUncertain, r.known(o).drainState)
			r.conn.Inject(apisim.Faults{})
			r.start()
			synctest.Wait()
			assert.Equal(t, protocol.Accepting, r.known(o).drainState)
		}))
	})
}

func TestPanicsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			o := r.assign("x")
			assert.PanicsWithValue(t, "ouch", func() {
				_ = r.shard.Do(r.ctx, o, func(context.Context) error { panic("ouch") })
			})
			w.set("x", "a", true, nil)
			synctest.Wait()
			w.acknowledged("x")
		}))
	})
}

// listsOnly is the lister of a client without watch-lists.
type listsOnly struct{ cache.ListerWatcher }

func (listsOnly) IsWatchListSemanticsUnSupported() bool { return true }

func TestSelectorSelectsWhatAllSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		r := w.replica(Config{Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}})
		mine, blue := r.shard.keys.Shard, ringtest.SelectorOf(t, "colour=blue")
		both := r.shard.Selector(nil, blue)
		assert.True(t, both.Matches(labels.Set{mine: "a", "colour": "blue"}))
		assert.False(t, both.Matches(labels.Set{mine: "a"}))
		assert.False(t, both.Matches(labels.Set{mine: "b", "colour": "blue"}))
		assert.Equal(t, labels.Nothing(), r.shard.Selector(blue, labels.Nothing()))
	})
}

func TestFirstListsAreConsistent(t *testing.T) {
	for name, watchList := range map[string]bool{"watch-list": true, "list": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCluster(t)
				assert.NoError(t, w.within(func(r *replica) {
					var mu sync.Mutex
					var asked []string
					r.conn.Inject(apisim.Faults{Refuse: func(q *http.Request) bool {
						query := q.URL.Query()
						if query.Get("watch") == "" || query.Get("sendInitialEvents") == "true" {
							mu.Lock()
							defer mu.Unlock()
							asked = append(asked, "version "+query.Get("resourceVersion"))
							assert.Equal(t, watchList, query.Get("watch") != "")
							assert.Equal(t, r.shard.Selector().String(), query.Get("labelSelector"))
						}
						return false
					}})
					lw := listWatch(r.client())
					if !watchList {
						lw = listsOnly{lw}
					}
					informer := r.shard.NewInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})
					r.running.Go(func() { informer.RunWithContext(r.ctx) })
					synctest.Wait()
					assert.True(t, informer.HasSynced())
					mu.Lock()
					defer mu.Unlock()
					assert.Equal(t, []string{"version "}, asked)
				}))
			})
		})
	}
}

func TestTransformsLeaveTheRecordAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			w.create("x")
			r.assign("x")
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			require.NoError(t, informer.SetTransform(func(obj any) (any, error) {
				o := obj.(*corev1.ConfigMap)
				o.ObjectMeta = metav1.ObjectMeta{
					Namespace: o.Namespace, Name: o.Name,
					Labels: map[string]string{"a": "b"},
				}
				return o, nil
			}))
			r.running.Go(func() { informer.RunWithContext(r.ctx) })
			time.Sleep(time.Minute)
			item, _, _ := informer.GetStore().GetByKey("default/x")
			o := item.(*corev1.ConfigMap)
			assert.NoError(t, r.do(o))
			assert.Equal(t, "b", o.Labels["a"])
			assert.Empty(t, r.hooks(), "it was not taken for a stray")
		}))
	})
}

// Client-go drops a list with one nil object: no object would be in the cache.
func TestATransformHidesNoObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		assert.NoError(t, w.within(func(r *replica) {
			for _, name := range []string{"x", "y"} {
				w.create(name)
				r.assign(name)
			}
			informer := r.shard.NewInformer(listWatch(r.client()), &corev1.ConfigMap{}, 0, cache.Indexers{})
			require.NoError(t, informer.SetTransform(func(obj any) (any, error) {
				if o, ok := obj.(*corev1.ConfigMap); ok && o.Name == "x" {
					return obj, nil
				}
				return nil, nil
			}))
			r.running.Go(func() { informer.RunWithContext(r.ctx) })
			time.Sleep(time.Minute)
			assert.ElementsMatch(t, []string{"default/x", "default/y"}, informer.GetStore().ListKeys())
		}))
	})
}

func TestClientsHaveToBeGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		leases, err := kubernetes.NewForConfig(w.server.Client("a").Config())
		require.NoError(t, err)
		lease, err := shardlease.New(leases, shardlease.Config{Namespace: "default", Ring: "r", Identity: "a"})
		require.NoError(t, err)
		client, err := metadata.NewForConfig(w.server.Client("a").Config())
		require.NoError(t, err)
		shard, err := New(client, ringtest.TestMapper(), lease,
			Config{Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}})
		require.NoError(t, err)
		assert.ErrorIs(t, shard.Do(t.Context(), w.create("x"), nil), ErrUnguarded)
	})
}

func TestOtherKindsAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		r := w.replica(Config{})
		assert.ErrorContains(
			t, r.shard.Do(t.Context(), &corev1.Secret{}, nil), "objects of kind Secret are not in Config.Resources",
		)
		assert.ErrorContains(t, r.shard.Do(t.Context(), &metav1.PartialObjectMetadata{}, nil), "PartialObjectMetadata")
		_, sharded := r.shard.NewInformer(listWatch(r.client()), &corev1.Secret{}, 0, nil).(*informer)
		assert.False(t, sharded)
	})
}

func TestBadShardConfigsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCluster(t).replica(Config{})
		_, err := New(nil, nil, nil, Config{})
		assert.ErrorContains(t, err, "shard: client: must not be nil")
		assert.ErrorContains(t, err, "shard: mapper: must not be nil")
		assert.ErrorContains(t, err, "shard: lease: must not be nil")
		_, err = New(r.shard.metadata, ringtest.TestMapper(), r.lease, Config{AckGrace: -1, Quiet: -1, Concurrency: -1})
		assert.ErrorContains(t, err, "shard: Quiet: must not be negative (got -1ns)")
		assert.ErrorContains(t, err, "shard: AckGrace: must be positive (got -1ns)")
		assert.ErrorContains(t, err, "shard: Concurrency: must be positive (got -1)")
		assert.ErrorContains(t, err, "sharder: Resources: must name at least one")
		gadgets := ringtest.ConfigMaps
		gadgets.Resource = "gadgets"
		_, err = New(r.shard.metadata, ringtest.TestMapper(), r.lease,
			Config{Resources: []api.Resource{{GVR: gadgets}}})
		assert.ErrorContains(t, err, "must be served by the API server")
	})
}
