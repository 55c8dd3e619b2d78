package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

func TestShardHoldsALeaseOfItsName(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, func(config *shardlease.Config) {
			config.Labels, config.PodUID = map[string]string{"app": "x"}, "pod-1"
		})
		_, err := s.Term()
		require.ErrorIs(t, err, shardlease.ErrNotHeld)
		s.start(c)
		l := c.lease()
		assert.Equal(t, "a", holder(l))
		assert.Equal(t, map[string]string{shardlease.RingLabel: "r", "app": "x"}, l.Labels)
		assert.Equal(t, "1", l.Annotations[shardrecord.EpochAnnotation])
		assert.Equal(t, "pod-1", l.Annotations[shardrecord.IncarnationAnnotation])
		term, err := s.Term()
		require.NoError(t, err)
		assert.Equal(t, shardlease.Epoch{LeaseUID: l.UID, Number: 1}, term.Epoch())
		assert.Positive(t, term.Remaining())
		time.Sleep(time.Minute)
		assert.NotEqual(t, l.Spec.RenewTime, c.lease().Spec.RenewTime)
		assert.NoError(t, term.Err())

		require.NoError(t, s.stop())
		assert.Empty(t, holder(c.lease()))
		assert.ErrorIs(t, term.Err(), shardlease.ErrNotHeld)
		assert.Zero(t, term.Remaining())
		assert.Equal(t, s.held, s.released)
		assert.EqualValues(t, 1, c.epoch())
	})
}

func TestEpochs(t *testing.T) {
	for _, e := range []struct {
		name   string
		happen func(c *cluster, s *shard) // to the lease of a shard in epoch 1, whose process ends then
		want   int64
	}{
		{"restart", func(_ *cluster, s *shard) { s.die() }, 1},
		{"release", func(_ *cluster, s *shard) { _ = s.stop() }, 2},
		{"taken by the sharder", func(c *cluster, s *shard) {
			s.die()
			c.acquire()
		}, 2},
		{"emptied by somebody", func(c *cluster, s *shard) {
			s.die()
			c.patch(`{"spec":{"holderIdentity":""}}`)
		}, 2},
		{"taken by somebody", func(c *cluster, s *shard) {
			s.die()
			c.patch(`{"spec":{"holderIdentity":"thief"}}`)
		}, 2},
		{"given back by somebody", func(c *cluster, s *shard) {
			s.die()
			c.acquire()
			c.patch(`{"spec":{"holderIdentity":"a"}}`)
		}, 2},
		{"deleted by somebody", func(c *cluster, s *shard) {
			s.die()
			c.remove()
		}, 1},
	} {
		t.Run(e.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				s := newShard(c, nil).start(c)
				before := c.lease().UID
				e.happen(c, s)
				next := newShard(c, nil).start(c)
				time.Sleep(time.Minute)
				assert.Equal(t, []int64{e.want}, next.epochs())
				assert.Equal(t, e.want, c.epoch())
				assert.Equal(t, e.name == "deleted by somebody", before != c.lease().UID,
					"then the UID tells the epochs apart")
				assert.NoError(t, next.stop())
			})
		})
	}
}

// acquire is what a sharder does after it has seen the lease unchanged for 2D.
func (c *cluster) acquire() {
	c.Helper()
	r := newTracker(c.T)
	r.see(c.lease())
	time.Sleep(2 * duration)
	a, ok := r.Takeover("a", r.now())
	require.True(c, ok)
	_, err := shardstate.TakeOver(c.Context(), c.client(), a)
	require.NoError(c, err)
}

func TestShardReturnsAfterTheDurationThatTheSharderWrote(t *testing.T) {
	inCluster(t, func(c *cluster) {
		newShard(c, nil).start(c).die()
		c.acquire()
		s := newShard(c, nil).start(c)
		time.Sleep(duration - time.Second)
		assert.Empty(t, s.epochs())
		assert.Equal(t, shardlease.Sharder, s.waited[0].Holder)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, []int64{2}, s.epochs())
		assert.NoError(t, s.stop())
	})
}

func TestRestartedContainerTakesItsLeaseBackAtOnce(t *testing.T) {
	for _, r := range []struct {
		name          string
		before, after string // incarnations
		taken         bool   // the name, by a process of the Pod that lives
		wait          time.Duration
	}{
		{"same Pod", "pod-1", "pod-1", false, 0},
		{"another process of the Pod lives", "pod-1", "pod-1", true, duration},
		{"another Pod of the name", "pod-1", "pod-2", false, duration},
		{"unknown", "", "", false, duration},
		{"the first unknown", "", "pod-1", false, duration},
		{"the second unknown", "pod-1", "", false, duration},
	} {
		t.Run(r.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				newShard(c, func(config *shardlease.Config) { config.PodUID = r.before }).start(c).die()
				begin := time.Now()
				s := newShard(c, func(config *shardlease.Config) {
					config.PodUID = r.after
					if r.taken {
						config.SetOccupy(occupied)
					}
				}).start(c)
				c.within(time.Minute, func() bool { return len(s.epochs()) > 0 })
				assert.InDelta(t, r.wait.Seconds(), time.Since(begin).Seconds(), 0.1)
				assert.Equal(t, []int64{1}, s.epochs())
				assert.NoError(t, s.stop())
			})
		})
	}
}

// occupied is what the kernel says if another process has a name.
func occupied(string) (release func(), err error) { return nil, syscall.EADDRINUSE }

// TestOnlyTheSoleProcessOfAPodSaysWhichPod is about two containers of one Pod. The one that came
// first has the name; if the other outlives it and holds the lease, it must not be taken for left
// behind.
func TestOnlyTheSoleProcessOfAPodSaysWhichPod(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, func(config *shardlease.Config) {
			config.PodUID = "pod-1"
			config.SetOccupy(occupied)
		}).start(c)
		assert.NotContains(t, c.lease().Annotations, shardrecord.IncarnationAnnotation)
		other := newShard(c, func(config *shardlease.Config) { config.PodUID = "pod-1" }).start(c)
		time.Sleep(time.Minute)
		assert.Empty(t, other.epochs())
		assert.NoError(t, other.stop())
		assert.NoError(t, s.stop())
	})
}

func TestLeaseIsTakenBackOnlyFromTheOwnPod(t *testing.T) {
	for name, patch := range map[string]string{
		"the sharder has it":  `{"spec":{"holderIdentity":"bellwether.dev/sharder"}}`,
		"somebody edited it":  `{"spec":{"leaseTransitions":7}}`,
		"somebody else's now": `{"spec":{"holderIdentity":"b"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				mine := func(config *shardlease.Config) { config.PodUID = "pod-1" }
				newShard(c, mine).start(c).die()
				c.patch(patch)
				s := newShard(c, mine).start(c)
				time.Sleep(duration - time.Second)
				assert.Empty(t, s.epochs())
				assert.NoError(t, s.stop())
			})
		})
	}
}

func TestSecondProcessOfOneIdentityWaitsAndSaysForWhom(t *testing.T) {
	inCluster(t, func(c *cluster) {
		first := newShard(c, func(config *shardlease.Config) { config.PodUID = "pod-1" }).start(c)
		second := newShard(c, func(config *shardlease.Config) { config.PodUID = "pod-2" }).start(c)
		time.Sleep(10 * time.Minute)
		assert.Empty(t, second.epochs())
		assert.Equal(t, []shardlease.HolderInfo{
			{Holder: "a", PodUID: "pod-1", Wait: duration},
			{Holder: "a", PodUID: "pod-1", Wait: duration, Alive: true},
		}, second.waited)
		warnings := second.logs.FilterMessageSnippet("another process of the same identity").All()
		require.Len(t, warnings, 1, "once")
		assert.Equal(t, "pod-1", warnings[0].ContextMap()["incarnation"])
		assert.NoError(t, first.stop())
		synctest.Wait()
		assert.Equal(t, []int64{2}, second.epochs(), "when it is released")
		assert.NoError(t, second.stop())
	})
}

func TestForeignLeaseIsLeftAlone(t *testing.T) {
	for _, f := range []struct {
		name, patch string
		want        string
	}{
		{"of another ring", `{"metadata":{"labels":{"ring.bellwether.dev/name":"other"}}}`, `"other", not "r"`},
		{"without an epoch", `{"metadata":{"annotations":{"ring.bellwether.dev/epoch":null}}}`, "is missing"},
		{"with half an epoch", `{"metadata":{"annotations":{"ring.bellwether.dev/epoch":"1.5"}}}`, `"1.5"`},
		{"with a negative epoch", `{"metadata":{"annotations":{"ring.bellwether.dev/epoch":"-1"}}}`, `"-1"`},
	} {
		t.Run(f.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				newShard(c, nil).start(c).die()
				c.patch(f.patch)
				before := c.lease()
				err := <-newShard(c, nil).start(c).result
				require.ErrorIs(t, err, shardlease.ErrForeign)
				assert.ErrorContains(t, err, f.want)
				assert.ErrorContains(t, err, "ns/a")
				assert.Equal(t, before, c.lease())
			})
		})
	}
}

func TestShardStopsWhenItsLeaseIsNotItsOwnAnyMore(t *testing.T) {
	for name, happen := range map[string]func(c *cluster){
		"taken by somebody": func(c *cluster) { c.patch(`{"spec":{"holderIdentity":"thief"}}`) },
		"taken by a sharder": func(c *cluster) {
			c.patch(`{"spec":{"holderIdentity":"bellwether.dev/sharder"}}`)
		},
		"emptied":         func(c *cluster) { c.patch(`{"spec":{"holderIdentity":null}}`) },
		"given another D": func(c *cluster) { c.patch(`{"spec":{"leaseDurationSeconds":60}}`) },
		"given an epoch": func(c *cluster) {
			c.patch(`{"metadata":{"annotations":{"ring.bellwether.dev/epoch":"7"}}}`)
		},
		"deleted":          func(c *cluster) { c.remove() },
		"deleted and made": func(c *cluster) { c.remake() },
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				s := newShard(c, nil)
				stay := make(chan struct{})
				s.work = func(ctx context.Context) error {
					<-ctx.Done()
					s.note(func() { s.cause = context.Cause(ctx) })
					<-stay
					return ctx.Err()
				}
				s.start(c)
				happen(c)
				after := c.lease()
				synctest.Wait()
				require.Len(t, s.losses(), 1, "at once, by a watch")
				assert.ErrorIs(t, s.cause, shardlease.ErrLost)
				_, err := s.Term()
				assert.ErrorIs(t, err, shardlease.ErrNotHeld)
				assert.ErrorIs(t, err, shardlease.ErrLost)
				assert.ErrorIs(t, s.Check(nil), shardlease.ErrLost, "work goes on")
				time.Sleep(time.Minute)
				assert.Equal(t, after, c.lease(), "nothing is written, or created, while work goes on")
				close(stay)
				synctest.Wait()
				assert.NoError(t, s.Check(nil))
				_ = s.stop()
			})
		})
	}
}

func TestShardThatCannotWatchLearnsOfANewEpochFromItsNextRenewal(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		s.client.Inject(apisim.Faults{WatchLag: time.Hour})
		s.start(c)
		c.within(time.Minute, func() bool { return len(s.epochs()) > 0 })
		c.patch(`{"metadata":{"annotations":{"ring.bellwether.dev/epoch":"7"}}}`)
		time.Sleep(interval + time.Second)
		require.NotEmpty(t, s.losses())
		assert.ErrorContains(t, s.losses()[0], "annotation ring.bellwether.dev/epoch was changed from 1 to 7")
		time.Sleep(2 * duration)
		assert.Equal(t, []int64{1, 7}, s.epochs(), "as the sharder may have seen it")
		assert.NoError(t, s.stop())
	})
}

// remake replaces the lease by one that looks the same.
func (c *cluster) remake() {
	l := c.lease()
	c.remove()
	l.UID, l.ResourceVersion = "", ""
	_, err := c.leases().Create(c.Context(), l, metav1.CreateOptions{})
	require.NoError(c, err)
}

func TestWhatIsTakenFromTheRecordComesBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, func(config *shardlease.Config) { config.PodUID = "pod-1" }).start(c)
		before := c.lease()
		c.patch(`{"metadata":{"labels":null,"annotations":{"ring.bellwether.dev/epoch":null,"ring.bellwether.dev/` +
			`incarnation":"x"}}}`)
		time.Sleep(interval + time.Second)
		assert.Equal(t, before.Labels, c.lease().Labels)
		assert.Equal(t, before.Annotations, c.lease().Annotations)
		c.patch(`{"metadata":{"annotations":{"ring.bellwether.dev/epoch":"x"}}}`)
		assert.NoError(t, s.stop(), "and with the release")
		assert.EqualValues(t, 1, c.epoch())
		assert.Empty(t, s.losses())
	})
}

// errWork is what work returns that fails.
var errWork = errors.New("work failed")

func TestLeaseIsReleasedOnlyWhenAllHasEnded(t *testing.T) {
	type ending struct {
		work  func(ctx context.Context) error // told to end
		await func(ctx context.Context) error
	}
	until := func(err func(ctx context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return err(ctx)
		}
	}
	for _, e := range []struct {
		name string
		ending
		want error // nil: released
	}{
		{"nothing is left", ending{work: until(func(context.Context) error { return nil })}, nil},
		{"told to end", ending{work: until(context.Context.Err)}, nil},
		{"told to end, and why", ending{work: until(context.Cause)}, nil},
		{"failed", ending{work: func(context.Context) error { return errWork }}, errWork},
		{"failed when told to end", ending{work: until(func(context.Context) error { return errWork })}, errWork},
		{"gave up waiting", ending{work: until(func(ctx context.Context) error {
			return fmt.Errorf("in a hurry: %w", ctx.Err())
		})}, context.Canceled},
		{
			"ended abnormally",
			ending{work: func(context.Context) error { runtime.Goexit(); return nil }},
			shardlease.ErrUnfinished,
		},
		{"awaited", ending{await: func(context.Context) error { return nil }}, nil},
		{"awaited without success", ending{await: func(context.Context) error { return errWork }}, errWork},
		{
			"awaited abnormally",
			ending{await: func(context.Context) error { runtime.Goexit(); return nil }},
			shardlease.ErrUnfinished,
		},
	} {
		t.Run(e.name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				s := newShard(c, nil)
				s.work = e.work
				if e.await != nil {
					s.AddReleaseGate(e.await)
				}
				s.start(c)
				time.Sleep(time.Second)
				err := s.stop()
				if e.want == nil {
					require.NoError(t, err)
					assert.Empty(t, holder(c.lease()))
					assert.Empty(t, s.losses())
					return
				}
				require.ErrorIs(t, err, shardlease.ErrLost)
				require.ErrorIs(t, err, shardlease.ErrUnfinished)
				assert.ErrorIs(t, err, e.want)
				assert.ErrorContains(t, err, "lease ns/a is not released: some of the work may still run: ")
				assert.NotContains(t, err.Error(), "lost", "the work's own error is not a lost lease")
				require.Len(t, s.losses(), 1)
				assert.Equal(t, "a", holder(c.lease()))
				assert.Empty(t, s.released)
			})
		})
	}
}

func TestUnfinishedWorkIsNotBegunAgain(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		s.work = func(context.Context) error { return errWork }
		assert.ErrorIs(t, <-s.start(c).result, errWork, "although it need not end")
		assert.Equal(t, []int64{1}, s.epochs())
	})
}

func TestLeaseIsRenewedWhileSomethingIsAwaited(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		ended := make(chan struct{})
		s.AddReleaseGate(func(ctx context.Context) error {
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		s.start(c)
		s.cancel()
		time.Sleep(time.Minute)
		assert.Equal(t, "a", holder(c.lease()))
		assert.Empty(t, s.losses())
		term, err := s.Term()
		require.NoError(t, err)
		assert.Greater(t, term.Remaining(), duration-margin-interval-time.Second)
		close(ended)
		require.NoError(t, <-s.result)
		assert.Empty(t, holder(c.lease()))
	})
}

func TestWhatIsAwaitedHearsOfALoss(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		s.AddReleaseGate(func(ctx context.Context) error {
			<-ctx.Done()
			s.note(func() { s.cause = context.Cause(ctx) })
			return nil // also then everything has ended
		})
		s.start(c)
		s.cancel()
		synctest.Wait()
		c.remove()
		assert.ErrorIs(t, <-s.result, shardlease.ErrLost)
		assert.ErrorIs(t, s.cause, shardlease.ErrLost)
	})
}

func TestShardThatCannotRenewStopsInTimeAndComesBack(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil).start(c)
		begin := c.lease().Spec.RenewTime.Time
		s.client.Pause()
		c.within(duration-margin+time.Second, func() bool { return len(s.losses()) == 1 })
		assert.LessOrEqual(t, time.Since(begin), duration-margin+100*time.Millisecond)
		s.client.Resume()
		c.within(2*duration, func() bool { return len(s.epochs()) == 2 })
		assert.Equal(t, []int64{1, 1}, s.epochs(), "it was not taken")
		assert.NoError(t, s.stop())
	})
}

func TestOneRunAtATime(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil).start(c)
		assert.ErrorIs(t, s.Run(c.Context(), s.run), shardlease.ErrBusy)
		require.NoError(t, s.stop())
		s.start(c)
		assert.Equal(t, []int64{1, 2}, s.epochs())
		assert.NoError(t, s.stop())
	})
}

func TestTermIsInTheContextOfWork(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		s.work = func(ctx context.Context) error {
			term, ok := shardlease.TermFrom(ctx)
			require.True(t, ok)
			now, err := s.Term()
			require.NoError(t, err)
			assert.Same(t, now, term)
			scoped, scope := term.Scope(ctx)
			assert.NoError(t, scoped.Err())
			assert.False(t, scope.Open())
			assert.NoError(t, scope.Settle(ctx))
			assert.Error(t, scoped.Err())
			return nil
		}
		require.NoError(t, <-s.start(c).result)
		_, ok := shardlease.TermFrom(t.Context())
		assert.False(t, ok)
	})
}

func TestGuardIsKnownToBeInstalled(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		assert.False(t, s.Guarded())
		own := s.client.Config()
		own.Wrap(s.WrapOwnTransport)
		err := c.clientOf(own).CoordinationV1().Leases("ns").Delete(c.Context(), "x", metav1.DeleteOptions{})
		assert.ErrorIs(t, err, shardlease.ErrNotHeld)
		assert.False(t, s.Guarded(), "that is not the client of any work")
		config := s.client.Config()
		config.Wrap(s.WrapTransport)
		config.Wrap(s.WrapTransport)
		_, err = c.clientOf(config).CoordinationV1().Leases("ns").List(c.Context(), metav1.ListOptions{})
		require.NoError(t, err, "a read")
		assert.True(t, s.Guarded())
		err = c.clientOf(config).CoordinationV1().Leases("ns").Delete(c.Context(), "x", metav1.DeleteOptions{})
		assert.ErrorIs(t, err, shardlease.ErrNotHeld)
	})
}

func TestLeaseIsCollectedAsItWasSeen(t *testing.T) {
	inCluster(t, func(c *cluster) {
		require.NoError(t, newShard(c, nil).start(c).stop())
		r := newTracker(t)
		r.see(c.lease())
		time.Sleep(time.Hour)
		collection, ok := r.Deletion("a", r.now())
		require.True(t, ok)
		next := newShard(c, nil).start(c)
		err := shardstate.Delete(c.Context(), c.client(), collection)
		require.True(t, apierrors.IsConflict(err), "%v", err)
		assert.ErrorContains(t, err, "delete Lease ns/a")
		require.NoError(t, next.stop())
		r.see(c.lease())
		time.Sleep(time.Hour)
		collection, _ = r.Deletion("a", r.now())
		require.NoError(t, shardstate.Delete(c.Context(), c.client(), collection))
		assert.Nil(t, c.lease())
	})
}

func TestNextTerm(t *testing.T) {
	inCluster(t, func(c *cluster) {
		s := newShard(c, nil)
		ended, end := context.WithCancelCause(c.Context())
		cause := errors.New("ended")
		time.AfterFunc(time.Minute, func() { end(cause) })
		_, err := s.NextTerm(ended, nil)
		require.ErrorIs(t, err, cause)

		s.start(c)
		first, err := s.NextTerm(c.Context(), nil)
		require.NoError(t, err)
		held, err := s.Term()
		require.NoError(t, err)
		assert.Same(t, held, first)

		next := make(chan *shardlease.Term, 1)
		go func() {
			term, err := s.NextTerm(c.Context(), first)
			assert.NoError(t, err)
			next <- term
		}()
		time.Sleep(time.Minute)
		assert.Empty(t, next)
		require.NoError(t, s.stop())
		time.Sleep(time.Minute)
		assert.Empty(t, next)
		s.start(c)
		again := <-next
		assert.NotSame(t, first, again)
		assert.NoError(t, again.Err())
		require.NoError(t, s.stop())
	})
}

// A shard that steps down takes its lease back at once, unless a guarded write may still be carried out:
// it could otherwise release the lease before that. With PodUID, too: that its container is alone with
// the name says nothing of its own requests.
func TestAShardThatStepsDownWaitsForItsWrites(t *testing.T) {
	for name, of := range map[string]struct {
		pod             string
		writes          bool
		atLeast, atMost time.Duration // from when the network is back
	}{
		"nothing under way":           {"", false, 0, interval},
		"nothing under way, with Pod": {"pod-1", false, 0, interval},
		"a write":                     {"", true, duration - interval, duration + interval},
		"a write, with Pod":           {"pod-1", true, duration - interval, duration + interval},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(c *cluster) {
				s := newShard(c, func(config *shardlease.Config) {
					config.PodUID, config.StepDown = of.pod, 3*time.Second
				}).start(c)
				config := s.client.Config()
				config.WrapTransport = s.WrapTransport
				guarded := kubernetes.NewForConfigOrDie(config)
				time.Sleep(time.Minute + time.Second) // between two renewals
				s.client.Inject(apisim.Faults{LoseRequest: apisim.Always})
				if of.writes {
					go func() { _ = guarded.CoreV1().Pods("ns").Delete(c.Context(), "p", metav1.DeleteOptions{}) }()
				}
				time.Sleep(duration)
				require.Empty(c, s.losses())
				s.client.Inject(apisim.Faults{})
				back := time.Now()
				c.within(2*duration, func() bool { return len(s.epochs()) == 2 })
				assert.GreaterOrEqual(c, time.Since(back), of.atLeast)
				assert.LessOrEqual(c, time.Since(back), of.atMost)
				require.NoError(c, s.stop())
			})
		})
	}
}
