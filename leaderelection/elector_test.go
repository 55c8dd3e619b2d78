package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// replica is an elector with a record of what it did.
type replica struct {
	*leaderelection.Elector
	*client
	cancel context.CancelFunc
	result chan error // of Run
	drain  time.Duration
	logs   *observer.ObservedLogs

	mu    sync.Mutex
	work  []interval
	lost  []error
	cause error // of the last work's context
}

type interval struct{ start, stopping, end time.Time }

// newReplica makes a replica that survives the loss of its leadership.
func newReplica(t *testing.T, a *api, id string, change func(*leaderelection.Config)) *replica {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	r := &replica{client: a.client(), logs: logs, result: make(chan error, 1)}
	config := leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: id, Logger: zap.New(core),
		OnLost: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lost = append(r.lost, err)
		},
	}
	if change != nil {
		change(&config)
	}
	var err error
	r.Elector, err = leaderelection.New(r.client, config)
	require.NoError(t, err)
	return r
}

// start runs the replica until it is stopped or the test ends.
func (r *replica) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() { r.result <- r.Run(ctx, r.lead) }()
	synctest.Wait()
}

// stop ends the replica and returns what Run returned.
func (r *replica) stop() error {
	r.cancel()
	return <-r.result
}

func (r *replica) lead(ctx context.Context) error {
	r.mu.Lock()
	r.work = append(r.work, interval{start: time.Now()})
	last := &r.work[len(r.work)-1]
	r.mu.Unlock()
	<-ctx.Done()
	last.stopping = time.Now()
	time.Sleep(r.drain)
	r.mu.Lock()
	defer r.mu.Unlock()
	last.end = time.Now()
	r.cause = context.Cause(ctx)
	return ctx.Err()
}

// last is the last work interval.
func (r *replica) last(t *testing.T) interval {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NotEmpty(t, r.work)
	return r.work[len(r.work)-1]
}

func (r *replica) losses() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

func (r *replica) worked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.work)
}

// The defaults: D = 15 s, M = 3 s, R = 3 s.
const (
	duration  = 15 * time.Second
	usable    = 12 * time.Second // D - M
	interval3 = 3 * time.Second
)

func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		first, second := newReplica(t, a, "first", nil), newReplica(t, a, "second", nil)
		first.start(t)
		second.start(t)
		time.Sleep(time.Hour)
		synctest.Wait()

		assert.True(t, first.IsLeader())
		assert.False(t, second.IsLeader())
		assert.Equal(t, 1, first.worked(), "one term")
		assert.Zero(t, second.worked(), "candidates do no work")
		for _, r := range []*replica{first, second} {
			leader, ok := r.Leader()
			assert.True(t, ok)
			assert.Equal(t, "first", leader)
		}
		assert.NoError(t, second.stop())
		assert.NoError(t, first.stop())
		assert.Empty(t, first.losses())
	})
}

func TestRequestBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, idle := newReplica(t, a, "leader", nil), newReplica(t, a, "idle", nil)
		leader.start(t)
		idle.start(t)
		assert.Equal(t, map[string]int{"watch": 2, "get": 1, "create": 1}, leader.counted(),
			"one watch as a candidate, one as the leader")
		assert.Equal(t, map[string]int{"watch": 1, "get": 1}, idle.counted())

		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, map[string]int{"update": 200}, leader.counted(), "one request per renew interval of 3 s")
		assert.Empty(t, idle.counted(), "an idle candidate that watches sends none")

		require.NoError(t, leader.stop())
		synctest.Wait()
		assert.Equal(t, map[string]int{"update": 1}, leader.counted(), "the release")
		assert.Equal(t, map[string]int{"update": 1, "watch": 1}, idle.counted(), "the take-over")
		require.NoError(t, idle.stop())
	})
}

func TestSuccessorStartsAfterWorkHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader := newReplica(t, a, "0", nil)
		leader.start(t)
		for handover := range 100 {
			leader.drain = 20 * time.Second // longer than the lease
			next := newReplica(t, a, fmt.Sprint(handover+1), nil)
			next.start(t)
			require.NoError(t, leader.stop())
			synctest.Wait()
			require.False(t, next.last(t).start.Before(leader.last(t).end), "two leaders")
			require.Equal(t, leader.last(t).end, next.last(t).start, "at once")
			require.Equal(t, 20*time.Second, leader.last(t).end.Sub(leader.last(t).stopping), "not cut short")
			require.Empty(t, leader.losses(), "renewed until work had returned")
			leader = next
		}
		leader.drain = 0
		require.NoError(t, leader.stop())
	})
}

func TestDeadlineCountsFromTheLastRenewalSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.start(t)
		time.Sleep(10 * interval3)
		sent := time.Now()
		synctest.Wait()
		r.set(&r.refuse, down)
		time.Sleep(usable - time.Millisecond)
		synctest.Wait()
		assert.True(t, r.IsLeader())
		assert.Equal(t, time.Millisecond, r.Remaining())
		time.Sleep(time.Millisecond)
		synctest.Wait()

		assert.False(t, r.IsLeader())
		assert.Zero(t, r.Remaining())
		assert.Equal(t, usable, r.last(t).end.Sub(sent), "s + D - M")
		require.Len(t, r.losses(), 1)
		assert.ErrorIs(t, r.losses()[0], leaderelection.ErrLost)
		assert.ErrorIs(t, r.cause, leaderelection.ErrLost, "work learns why")
		for _, part := range []string{
			"lease ns/l", `lost by "a"`, `last known holder "a"`, "12s ago",
			"the API server is down",
		} {
			assert.ErrorContains(t, r.losses()[0], part)
		}
		assert.NoError(t, r.stop())
	})
}

func TestSlowAnswerDoesNotLengthenTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.set(&r.lose, func(string) error {
			time.Sleep(2 * time.Second)
			return nil
		})
		r.start(t)
		time.Sleep(4 * time.Second) // the read and the creation
		synctest.Wait()
		assert.Equal(t, usable-2*time.Second, r.Remaining(), "a term counts from when its first write was sent")
		time.Sleep(interval3)
		synctest.Wait()
		assert.Equal(t, usable-2*time.Second, r.Remaining(), "and from when a renewal was")
		r.set(&r.lose, nil)
		assert.NoError(t, r.stop())
	})
}

func TestLostAnswerDoesNotLengthenTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.start(t)
		acquired := time.Now()

		// The first renewal is committed, but no answer and no read gets through until shortly
		// before the deadline.
		r.set(&r.lose, down)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, time.Until(acquired.Add(usable)), r.Remaining(), "not while the outcome is unknown")
		r.set(&r.refuse, forbid("update"))
		r.set(&r.lose, nil)
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, time.Until(acquired.Add(interval3+usable)), r.Remaining(),
			"from when the renewal was sent that stands in the record, not from the read that found it")
		assert.NoError(t, r.stop())
	})
}

func TestFailedRenewalIsTriedAgainUntilTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.start(t)
		r.set(&r.refuse, down)
		time.Sleep(3 * interval3) // MissedRenewals
		r.set(&r.refuse, nil)
		time.Sleep(interval3)
		synctest.Wait()
		assert.True(t, r.IsLeader())
		assert.Empty(t, r.losses())
		assert.Equal(t, 2, r.logs.FilterMessage("request failed, retrying").Len(), "said once for each verb")
		assert.Equal(t, 2, r.logs.FilterMessage("request succeeds again").Len())
		assert.NoError(t, r.stop())
	})
}

func TestLeaderStopsWhenItsRecordChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, a *api)
		lost   bool
	}{
		{"taken by somebody", func(t *testing.T, a *api) {
			a.edit(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("thief") })
		}, true},
		{"duration edited", func(t *testing.T, a *api) {
			a.edit(t, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(1)) })
		}, true},
		{"deleted", func(t *testing.T, a *api) {
			require.NoError(t, a.tracker.Delete(leases, "ns", "l"))
		}, true},
		{"deleted and created again", func(t *testing.T, a *api) {
			l := a.lease(t)
			require.NoError(t, a.tracker.Delete(leases, "ns", "l"))
			_, err := a.client().CoordinationV1().Leases("ns").Create(t.Context(), l, metav1.CreateOptions{})
			require.NoError(t, err)
		}, true},
		{"labelled", func(t *testing.T, a *api) {
			a.edit(t, func(l *coordinationv1.Lease) { l.Labels = map[string]string{"team": "a"} })
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				r := newReplica(t, a, "a", nil)
				r.start(t)
				time.Sleep(interval3 / 2)
				c.change(t, a)
				synctest.Wait()
				assert.Equal(t, c.lost, !r.IsLeader())
				assert.Equal(t, c.lost, len(r.losses()) == 1)
				if c.lost {
					assert.Equal(t, interval3/2, r.last(t).end.Sub(r.last(t).start), "at once")
				} else {
					time.Sleep(time.Minute)
					assert.True(t, r.IsLeader())
					assert.Equal(t, "a", a.lease(t).Labels["team"])
				}
				assert.NoError(t, r.stop())
			})
		})
	}
}

func TestLeaderThatMayNotWatchLearnsFromItsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.set(&r.refuse, forbid("watch"))
		r.start(t)
		time.Sleep(interval3 / 2)
		a.edit(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("thief") })
		time.Sleep(interval3)
		synctest.Wait()
		assert.Equal(t, interval3, r.last(t).end.Sub(r.last(t).start))
		require.NoError(t, r.stop())
	})
}

func TestCandidateWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(t *testing.T, a *api, leader *replica)
		change func(t *testing.T, a *api)
		wait   time.Duration
	}{
		{"a dead leader: until the record has stood for D", nil, nil, duration},
		{"a release: not at all", func(t *testing.T, _ *api, leader *replica) {
			require.NoError(t, leader.stop())
		}, nil, 0},
		{"a record emptied without marker: D from then", nil, func(t *testing.T, a *api) {
			a.edit(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") })
		}, time.Second + duration},
		{"a deleted Lease: D from then", nil, func(t *testing.T, a *api) {
			require.NoError(t, a.tracker.Delete(leases, "ns", "l"))
		}, time.Second + duration},
		{"a longer duration in the record", nil, func(t *testing.T, a *api) {
			a.edit(t, func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(60)) })
		}, time.Second + time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				leader, candidate := newReplica(t, a, "leader", nil), newReplica(t, a, "candidate", nil)
				leader.start(t)
				candidate.start(t)
				time.Sleep(10 * interval3)
				synctest.Wait()
				last := time.Now()
				if c.end != nil {
					c.end(t, a, leader)
				} else {
					leader.set(&leader.refuse, down) // as good as dead
				}
				if c.change != nil {
					time.Sleep(time.Second)
					c.change(t, a)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				assert.Equal(t, c.wait, candidate.last(t).start.Sub(last))
				assert.False(t, candidate.last(t).start.Before(leader.last(t).end), "two leaders")
				if c.end == nil {
					require.NoError(t, leader.stop())
				}
				require.NoError(t, candidate.stop())
			})
		})
	}
}

func TestFailedSwapIsNotRepeatedOnOneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, candidate := newReplica(t, a, "leader", nil), newReplica(t, a, "candidate", nil)
		leader.start(t)
		candidate.start(t)
		begin := time.Now()
		leader.set(&leader.refuse, down)
		candidate.set(&candidate.refuse, func(verb string) error {
			if verb == "update" { // may have arrived for all the candidate knows
				candidate.set(&candidate.refuse, nil)
				return down(verb)
			}
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2*duration, candidate.last(t).start.Sub(begin).Truncate(time.Second),
			"the version is waited out again")
		require.NoError(t, leader.stop())
		require.NoError(t, candidate.stop())
	})
}

func TestReleaseNeverTouchesASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "old", nil)
		r.set(&r.refuse, forbid("watch"))
		r.start(t)
		// Nothing tells of the successor before the release.
		a.edit(t, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr.To("new"), ptr.To(int32(1))
		})
		want := a.lease(t)
		require.NoError(t, r.stop())
		assert.Equal(t, want, a.lease(t))
	})
}

func TestReleaseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.start(t)
		r.set(&r.refuse, down)
		time.AfterFunc(interval3, func() { r.set(&r.refuse, nil) })
		require.NoError(t, r.stop())
		assert.Empty(t, *a.lease(t).Spec.HolderIdentity)

		gone := newReplica(t, a, "gone", nil)
		gone.start(t)
		gone.set(&gone.refuse, down)
		begin := time.Now()
		require.NoError(t, gone.stop())
		assert.LessOrEqual(t, time.Since(begin), 4*interval3)
		assert.Equal(t, "gone", *a.lease(t).Spec.HolderIdentity)
		assert.Equal(t, 1, gone.logs.FilterMessageSnippet("lease not released").Len())
	})
}

func TestReleaseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", func(c *leaderelection.Config) { c.ReleaseTimeout = 30 * time.Second })
		r.drain = time.Minute
		r.start(t)
		begin := time.Now()
		r.cancel()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Len(t, r.losses(), 1, "OnLost is what ends the process")
		require.ErrorContains(t, r.losses()[0], "ReleaseTimeout (30s)")
		err := <-r.result
		require.ErrorIs(t, err, leaderelection.ErrLost)
		assert.Equal(t, time.Minute, time.Since(begin), "not before work has returned")
		assert.Equal(t, "a", *a.lease(t).Spec.HolderIdentity, "no release: work was running")
	})
}

func TestContendsAgainWhenOnLostReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.drain = 7 * time.Second
		r.start(t)
		r.set(&r.refuse, down)
		time.Sleep(usable)
		r.set(&r.refuse, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, r.worked())
		assert.True(t, r.IsLeader())
		assert.Equal(t, int32(1), *a.lease(t).Spec.LeaseTransitions, "a term of its own")
		assert.False(t, r.work[1].start.Before(r.work[0].end), "work overlaps itself")
		r.drain = 0
		require.NoError(t, r.stop())
	})
}

func TestWorkThatReturnsReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		broken := errors.New("broken")
		assert.Equal(t, broken, r.Run(t.Context(), func(context.Context) error { return broken }))
		assert.Empty(t, *a.lease(t).Spec.HolderIdentity)
		assert.NoError(t, r.Run(t.Context(), func(context.Context) error { return nil }))
		assert.ErrorIs(t, r.Run(t.Context(), func(context.Context) error { return context.Canceled }), context.Canceled,
			"it did not come from the context of Run")
	})
}

func TestNoWorkIsBegunOnceTheContextHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		ctx, cancel := context.WithCancel(t.Context())
		r.set(&r.lose, func(verb string) error {
			if verb == "create" {
				cancel() // while the lease is being won
			}
			return nil
		})
		require.NoError(t, r.Run(ctx, r.lead))
		assert.Zero(t, r.worked())
		assert.Empty(t, *a.lease(t).Spec.HolderIdentity, "nor is the lease kept")
	})
}

// onceCreated loses every answer from the one to the request on that creates the Lease.
func onceCreated(a *api, t *testing.T) func(string) error {
	return func(verb string) error {
		if a.lease(t) == nil {
			return nil
		}
		return down(verb)
	}
}

func TestAcquisitionWithLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		begin := time.Now()
		r.set(&r.lose, onceCreated(a, t))
		r.start(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.NotNil(t, a.lease(t), "committed")
		require.Zero(t, r.worked(), "but it does not know")
		r.set(&r.lose, nil)
		time.Sleep(interval3)
		synctest.Wait()
		require.Equal(t, 1, r.worked())
		assert.Equal(t, begin, a.lease(t).Spec.AcquireTime.Local(), "the first attempt stands, and begins the term")
		require.NoError(t, r.stop())
	})
}

func TestAcquisitionFoundTooLateIsRenewedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.set(&r.lose, onceCreated(a, t))
		r.start(t)
		time.Sleep(usable)
		synctest.Wait()
		r.set(&r.lose, nil)
		time.Sleep(interval3)
		synctest.Wait()
		require.Equal(t, 1, r.worked())
		assert.GreaterOrEqual(t, a.lease(t).Spec.RenewTime.Sub(a.lease(t).Spec.AcquireTime.Time), usable)
		assert.Empty(t, r.losses())
		require.NoError(t, r.stop())
	})
}

func TestTwoCandidatesOneExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, b, c := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil), newReplica(t, a, "c", nil)
		for _, r := range []*replica{leader, b, c} {
			r.start(t)
		}
		leader.set(&leader.refuse, down)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, b.worked()+c.worked())
		for _, r := range []*replica{leader, b, c} {
			require.NoError(t, r.stop())
		}
	})
}

func TestWithoutWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, poller := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		poller.set(&poller.refuse, forbid("watch"))
		leader.start(t)
		poller.start(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, poller.logs.FilterMessageSnippet("polling instead of watching").Len(), "said once")
		require.Len(t,
			poller.logs.FilterMessageSnippet("polling instead of watching").FilterLevelExact(zapcore.WarnLevel).All(),
			1)
		polls := poller.counted()
		assert.InDelta(t, 3600/3.1, polls["get"], 30)
		assert.InDelta(t, 62, polls["watch"], 3, "asked again, at last once a minute")

		require.NoError(t, leader.stop())
		time.Sleep(4 * time.Second)
		synctest.Wait()
		assert.True(t, poller.IsLeader())
		require.NoError(t, poller.stop())
	})
}

// TestOfTwoElectorsOfOneIdentityOneLeads is about replicas whose identities were configured to be
// the same. Their clocks agree, so they write the same.
func TestOfTwoElectorsOfOneIdentityOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		one, other := newReplica(t, a, "same", nil), newReplica(t, a, "same", nil)
		for _, r := range []*replica{one, other} {
			ctx, cancel := context.WithCancel(t.Context())
			r.cancel = cancel
			go func() { r.result <- r.Run(ctx, r.lead) }()
		}
		synctest.Wait()
		assert.Len(t, slices.Concat(one.work, other.work), 1)
		require.NoError(t, one.stop())
		require.NoError(t, other.stop())
	})
}

func TestWithoutRights(t *testing.T) {
	for _, verb := range []string{"get", "create", "update"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				if verb == "update" { // there is something to update
					other := newReplica(t, a, "other", nil)
					other.start(t)
					require.NoError(t, other.stop())
				}
				r := newReplica(t, a, "a", nil)
				r.set(&r.refuse, forbid(verb))
				begin := time.Now()
				err := r.Run(t.Context(), r.lead)
				require.ErrorContains(t, err, "leaderelection: not allowed to "+verb+" Lease ns/l: grant the verb")
				assert.GreaterOrEqual(t, time.Since(begin), duration, "rights may be late")
				assert.Less(t, time.Since(begin), duration+interval3)
				assert.Equal(t, 1, r.logs.FilterMessageSnippet("request failed").Len(), "said at once, and once")

				_, err = r.TryAcquire(t.Context())
				require.ErrorContains(t, err, "not allowed to "+verb+" Lease ns/l", "a single step does not wait")

				r.start(t)
				time.Sleep(duration / 2)
				r.set(&r.refuse, nil)
				time.Sleep(interval3)
				synctest.Wait()
				assert.True(t, r.IsLeader(), "granted in time")
				require.NoError(t, r.stop())
			})
		})
	}
}

func TestRevokedRightsAreAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.start(t)
		r.set(&r.refuse, forbid("update"))
		time.Sleep(usable)
		synctest.Wait()
		require.Len(t, r.losses(), 1)
		require.ErrorContains(t, r.losses()[0], `grant the verb "update"`)
		assert.NoError(t, r.stop())
	})
}

func TestSingleSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		first, second := newReplica(t, a, "first", nil), newReplica(t, a, "second", nil)
		assert.ErrorIs(t, first.Renew(t.Context()), leaderelection.ErrNotLeader)
		assert.ErrorIs(t, first.Release(t.Context()), leaderelection.ErrNotLeader)

		term, err := first.TryAcquire(t.Context())
		require.NoError(t, err)
		stored := a.lease(t)
		assert.Equal(t, leaderelection.Term{Identity: "first", LeaseUID: stored.UID, Token: stored.ResourceVersion},
			term)
		assert.True(t, first.IsLeader())
		again, err := first.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, term, again)

		_, err = second.TryAcquire(t.Context())
		var held *leaderelection.HeldError
		require.ErrorAs(t, err, &held)
		assert.ErrorIs(t, err, leaderelection.ErrHeld)
		assert.Equal(t, "first", held.Holder)
		assert.Equal(t, duration, held.Wait)

		time.Sleep(usable - time.Second)
		require.NoError(t, first.Renew(t.Context()))
		assert.Equal(t, usable, first.Remaining())
		require.NoError(t, first.Release(t.Context()))
		assert.False(t, first.IsLeader())
		_, ok := first.Leader()
		assert.False(t, ok)

		term, err = second.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, int32(1), term.Transitions)
		second.start(t)
		assert.Equal(t, 1, second.worked(), "Run carries the term on")
		assert.Equal(t, int32(1), *a.lease(t).Spec.LeaseTransitions)
		_, err = second.TryAcquire(t.Context())
		assert.ErrorIs(t, err, leaderelection.ErrBusy)
		assert.ErrorIs(t, second.Run(t.Context(), second.lead), leaderelection.ErrBusy)
		require.NoError(t, second.stop())
	})
}

func TestTermHasTheTimeWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r, other := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		term, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Zero(t, term.Vacant, "there was none")
		assert.False(t, term.Released)
		_, err = other.TryAcquire(t.Context())
		require.ErrorIs(t, err, leaderelection.ErrHeld)
		time.Sleep(duration + time.Second)
		term, err = other.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, duration+time.Second, term.Vacant, "since the last renewal that it has seen")
		assert.False(t, term.Released)

		require.NoError(t, other.Release(t.Context()))
		third := newReplica(t, a, "c", nil)
		started := make(chan leaderelection.Term, 1)
		fourth := newReplica(t, a, "d", func(c *leaderelection.Config) {
			c.Hooks.OnStartedLeading = func(t leaderelection.Term) { started <- t }
		})
		_, err = third.TryAcquire(t.Context())
		require.NoError(t, err)
		fourth.start(t) // it watches
		time.Sleep(time.Second)
		require.NoError(t, third.Release(t.Context()))
		term = <-started
		assert.True(t, term.Released)
		assert.Less(t, term.Vacant, time.Second)
		require.NoError(t, fourth.stop())
	})
}

func TestForgottenTermEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r, other := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		_, err = other.TryAcquire(t.Context())
		require.ErrorIs(t, err, leaderelection.ErrHeld)
		time.Sleep(duration)
		synctest.Wait()
		assert.Len(t, r.losses(), 1, "OnLost")
		assert.ErrorIs(t, r.Renew(t.Context()), leaderelection.ErrNotLeader)
		_, err = other.TryAcquire(t.Context())
		assert.NoError(t, err, "a candidate that has seen the record stand for D")
		require.NoError(t, other.Release(t.Context()))
	})
}

func TestCoordinatedLease(t *testing.T) {
	for name, coordinate := range map[string]func(*coordinationv1.Lease){
		"strategy": func(l *coordinationv1.Lease) {
			l.Spec.Strategy = ptr.To(coordinationv1.OldestEmulationVersion)
		},
		"preferred holder": func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = ptr.To("b") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				leader, candidate := newReplica(t, a, "a", nil), newReplica(t, a, "b", nil)
				leader.start(t)
				candidate.start(t)
				time.Sleep(time.Second)
				a.edit(t, coordinate)
				synctest.Wait()
				want := a.lease(t)
				require.Len(t, leader.losses(), 1)
				require.ErrorIs(t, leader.losses()[0], leaderelection.ErrCoordinated)
				for _, r := range []*replica{leader, candidate} {
					assert.ErrorIs(t, <-r.result, leaderelection.ErrCoordinated)
				}
				_, err := candidate.TryAcquire(t.Context())
				assert.ErrorIs(t, err, leaderelection.ErrCoordinated)
				time.Sleep(time.Minute)
				assert.Equal(t, want, a.lease(t), "never written")
			})
		})
	}
}

func TestLockForLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		lock, err := a.client().CoordinationV1().Leases("ns").Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "l", Labels: map[string]string{"bellwether.dev/lock": "life"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		candidate := newReplica(t, a, "a", nil)
		candidate.start(t)
		assert.ErrorIs(t, <-candidate.result, leaderelection.ErrForLife)
		_, err = candidate.TryAcquire(t.Context())
		assert.ErrorIs(t, err, leaderelection.ErrForLife)
		assert.Equal(t, lock, a.lease(t), "never written")
	})
}
