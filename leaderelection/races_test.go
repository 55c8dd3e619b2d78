package leaderelection_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// delayed makes the first write of a verb time out at the client and arrive only when deliver is
// called.
func delayed(t *testing.T, r *replica, verb string) (deliver func()) {
	t.Helper()
	var sent *coordinationv1.Lease
	r.PrependReactor(verb, "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if sent != nil {
			return false, nil, nil
		}
		sent = action.(interface{ GetObject() runtime.Object }).GetObject().(*coordinationv1.Lease).DeepCopy()
		return true, nil, context.DeadlineExceeded
	})
	return func() {
		t.Helper()
		leases := r.api.client().CoordinationV1().Leases("ns")
		var err error
		if verb == "create" {
			_, err = leases.Create(t.Context(), sent, metav1.CreateOptions{})
		} else {
			_, err = leases.Update(t.Context(), sent, metav1.UpdateOptions{})
		}
		require.NoError(t, err)
	}
}

func TestRenewalThatArrivesLateIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		deliver := delayed(t, r, "update")
		r.start(t)
		time.Sleep(interval3 + 50*time.Millisecond) // the record has been read, and the old version stood
		synctest.Wait()
		deliver()
		time.Sleep(interval3)
		synctest.Wait()
		assert.Empty(t, r.losses())
		assert.True(t, r.IsLeader())
		require.NoError(t, r.stop())
	})
}

func TestCreationThatArrivesLateIsOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		deliver := delayed(t, r, "create")
		begin := time.Now()
		r.start(t)
		deliver() // before the next attempt
		time.Sleep(duration)
		synctest.Wait()
		assert.Less(t, r.last(t).start.Sub(begin), time.Second, "not waited out as if it were another's")
		require.NoError(t, r.stop())
	})
}

func TestDeletionAfterALostRaceIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, winner, loser := newReplica(t, a, "leader", nil), newReplica(t, a, "winner", nil), newReplica(t, a,
			"loser", nil)
		loser.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			time.Sleep(time.Millisecond)   // the winner is faster
			loser.set(&loser.refuse, down) // and who has won cannot be read
			return true, nil, apierrors.NewConflict(leases.GroupResource(), "l", errors.New("modified"))
		})
		for _, r := range []*replica{leader, winner, loser} {
			r.start(t)
		}
		require.NoError(t, leader.stop())
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, winner.worked())
		require.NoError(t, a.tracker.Delete(leases, "ns", "l"))
		loser.set(&loser.refuse, nil)
		time.Sleep(2 * time.Second) // before the winner's next renewal
		synctest.Wait()
		assert.Len(t, winner.losses(), 1, "sees it, but might not have")
		assert.Zero(t, loser.worked(), "two leaders")
		assert.NoError(t, winner.stop())
		assert.NoError(t, loser.stop())
	})
}

func TestSilentWatchIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leader, candidate := newReplica(t, a, "leader", nil), newReplica(t, a, "candidate", nil)
		opened := 0
		candidate.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
			opened++
			return opened == 1, watch.NewFake(), nil // the first says nothing, ever
		})
		leader.start(t)
		candidate.start(t)
		time.Sleep(time.Minute)
		assert.Zero(t, candidate.worked())
		require.NoError(t, leader.stop())
		synctest.Wait()
		assert.True(t, candidate.IsLeader(), "at once, by the second watch")
		require.NoError(t, candidate.stop())
	})
}

func TestOnLostHasReturnedBeforeTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := false
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			c.OnLost = func(error) {
				time.Sleep(time.Minute)
				told = true
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		terms := 0
		go func() {
			r.result <- r.Run(ctx, func(ctx context.Context) error {
				terms++
				assert.Equal(t, terms > 1, told)
				<-ctx.Done()
				return context.Cause(ctx) // the loss itself
			})
		}()
		synctest.Wait()
		r.set(&r.refuse, down)
		time.Sleep(usable)
		r.set(&r.refuse, nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, terms)
		cancel()
		assert.NoError(t, <-r.result)
	})
}

func TestLossOfAnotherLeaseIsAnErrorOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		outer, inner := newReplica(t, a, "outer", nil), newReplica(t, newAPI(), "inner", nil)
		_, err := inner.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(duration)
		require.Len(t, inner.losses(), 1)
		calls := 0
		err = outer.Run(t.Context(), func(context.Context) error {
			calls++
			return inner.losses()[0]
		})
		assert.Equal(t, inner.losses()[0], err)
		assert.Equal(t, 1, calls)
		assert.False(t, outer.IsLeader())
		assert.Empty(t, *a.lease(t).Spec.HolderIdentity, "released")
		time.Sleep(time.Minute)
		assert.Empty(t, outer.losses())
	})
}

func TestPollerWithoutUpdateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		dead, r := newReplica(t, a, "dead", nil), newReplica(t, a, "a", nil)
		_, err := dead.TryAcquire(t.Context())
		require.NoError(t, err)
		r.set(&r.refuse, forbid("update", "watch"))
		begin := time.Now()
		assert.ErrorContains(t, r.Run(t.Context(), r.lead), "not allowed to update Lease ns/l")
		assert.Less(t, time.Since(begin), 3*duration)
	})
}

func TestCandidateEndsAtOnceWhenNothingAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{
			Host: "http://api.invalid", QPS: -1, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}),
		})
		require.NoError(t, err)
		elector, err := leaderelection.New(client,
			leaderelection.Config{Namespace: "ns", Name: "l", LeaseDuration: time.Minute})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		assert.NoError(t, elector.Run(ctx, func(context.Context) error { return nil }))
		assert.Equal(t, time.Second, time.Since(begin))
		_, err = elector.TryAcquire(ctx)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.start(t)
		_, leads := c.after(time.Minute)
		require.True(t, leads)
		c.set(func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet { // slow but good reads between writes that hang
				time.Sleep(interval3 * 9 / 10)
				return nil
			}
			<-r.Context().Done()
			return page(r, http.StatusInternalServerError, "text/plain", "")
		})
		begin := time.Now()
		c.stop(t)
		assert.LessOrEqual(t, time.Since(begin), 5*interval3, "four, and what the server does not cut short")
	})
}

func TestEndsWithoutErrorEvenIfItCannotRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		r.set(&r.lose, func(verb string) error {
			if verb == "create" { // ended while the lease is being won
				cancel(errors.New("shutting down"))
				r.set(&r.refuse, down)
			}
			return nil
		})
		assert.NoError(t, r.Run(ctx, r.lead))
		assert.Equal(t, 1, r.logs.FilterMessageSnippet("lease not released").Len())
	})
}

func TestCauseOfTheContextIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplica(t, newAPI(), "a", nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		assert.NoError(t, r.Run(ctx, func(ctx context.Context) error {
			cancel(errors.New("shutting down"))
			<-ctx.Done()
			return context.Cause(ctx)
		}))
	})
}

// TestWriteThatIsAnsweredAndDroppedIsAFailure is about an answer of success to a write that changed
// nothing, as with a webhook that resets the spec. The leader must neither write in a loop nor
// believe that it has renewed or released.
func TestWriteThatIsAnsweredAndDroppedIsAFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(stored *coordinationv1.Lease) *coordinationv1.Lease
	}{
		{"with what is stored", func(stored *coordinationv1.Lease) *coordinationv1.Lease { return stored }},
		{"with nothing", func(*coordinationv1.Lease) *coordinationv1.Lease { return &coordinationv1.Lease{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI()
				r := newReplica(t, a, "a", nil)
				writes := 0
				r.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					writes++
					time.Sleep(time.Millisecond)
					return true, c.answer(a.lease(t)), nil
				})
				_, err := r.TryAcquire(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.ErrorContains(t, r.Renew(t.Context()), "stored something else")
				assert.Less(t, r.Remaining(), usable-time.Second)
				r.start(t)
				time.Sleep(usable)
				synctest.Wait()
				require.Len(t, r.losses(), 1)
				assert.ErrorContains(t, r.losses()[0], "stored something else")
				assert.Less(t, writes, 20, "in %v", usable)
				assert.NoError(t, r.stop())

				_, err = r.TryAcquire(t.Context())
				require.ErrorIs(t, err, leaderelection.ErrHeld)
			})
		})
	}
}

func TestReleaseThatIsDroppedIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		r := newReplica(t, a, "a", nil)
		r.PrependReactor("update", "leases",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, a.lease(t), nil })
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second) // writes differ by when they are sent
		assert.ErrorContains(t, r.Release(t.Context()), "stored something else")
	})
}
