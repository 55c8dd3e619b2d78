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
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// diary is what the hooks of a replica were told.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.entries)
}

// keep makes a replica's hooks write the diary, all but renewals that succeed.
func (d *diary) keep(c *leaderelection.Config) {
	c.Hooks = leaderelection.Hooks{
		OnNewLeader:      func(identity string) { d.note("leader %s", identity) },
		OnStartedLeading: func(term leaderelection.Term) { d.note("started %d", term.Transitions) },
		OnStoppedLeading: func(term leaderelection.Term, err error) {
			d.note("stopped %d: %v", term.Transitions, cause(err))
		},
	}
	next := c.OnLost
	c.OnLost = func(err error) {
		d.note("lost")
		next(err)
	}
}

// cause is short for what the error of a lost term is.
func cause(err error) any {
	if err == nil {
		return "released"
	}
	if errors.Is(err, leaderelection.ErrLost) {
		return "lost"
	}
	return err
}

func TestHooksTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		var first, second diary
		r, other := newReplica(t, a, "a", first.keep), newReplica(t, a, "b", second.keep)
		r.start(t)
		assert.Equal(t, []string{"leader a", "started 0"}, first.read())
		other.start(t)
		time.Sleep(time.Minute)
		require.NoError(t, r.stop())
		synctest.Wait()
		assert.Equal(t, []string{"leader a", "started 0", "stopped 0: released"}, first.read())
		assert.Equal(t, []string{"leader a", "leader b", "started 1"}, second.read(), "an empty record is no leader")
		r.start(t)
		other.set(&other.refuse, down)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, other.stop())
		assert.Equal(t, []string{"leader a", "leader b", "started 1", "stopped 1: lost", "lost"}, second.read(),
			"OnLost, which ends the process, comes last")
		require.NoError(t, r.stop())
		r.start(t)
		require.NoError(t, r.stop())
		assert.Equal(t, []string{
			"leader b", "leader a", "started 2", "stopped 2: released",
			"started 3", "stopped 3: released",
		}, first.read()[3:], "the same leader again is none that is new")
	})
}

func TestHooksOfSingleSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := newReplica(t, newAPI(), "a", d.keep)
		for range 2 { // the second finds the term of the first
			_, err := r.TryAcquire(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, r.Renew(t.Context()))
		require.NoError(t, r.Release(t.Context()))
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		r.start(t) // carries the term on
		require.NoError(t, r.stop())
		_, err = r.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(usable) // forgotten
		synctest.Wait()
		assert.Equal(t, []string{
			"leader a", "started 0", "stopped 0: released", "started 1", "stopped 1: released", "started 2",
			"stopped 2: lost", "lost",
		}, d.read())
	})
}

func TestHooksStandInTheRightPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		leading, released := false, false
		var r *replica
		r = newReplica(t, a, "a", func(c *leaderelection.Config) {
			c.Hooks.OnNewLeader = func(identity string) {
				leader, ok := r.Leader()
				assert.True(t, ok)
				assert.Equal(t, identity, leader, "no lock is held")
			}
			c.Hooks.OnStartedLeading = func(term leaderelection.Term) {
				time.Sleep(time.Second)
				assert.True(t, r.IsLeader())
				assert.Equal(t, leaderelection.Term{
					Identity: "a", LeaseUID: a.lease(t).UID, Token: a.lease(t).ResourceVersion,
				}, term)
				leading = true
			}
			c.Hooks.OnStoppedLeading = func(leaderelection.Term, error) {
				assert.False(t, r.IsLeader())
				assert.Equal(t, "a", *a.lease(t).Spec.HolderIdentity, "no successor can have begun")
				time.Sleep(time.Second)
				released = *a.lease(t).Spec.HolderIdentity == ""
			}
		})
		require.NoError(t, r.Run(t.Context(), func(context.Context) error {
			assert.True(t, leading, "the hook has returned")
			return nil
		}))
		assert.False(t, released)
	})
}

func TestTermThatIsLostBeforeItsStartIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		first := true
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			d.keep(c)
			c.Hooks.OnNewLeader = func(string) {
				if first { // in the middle of the acquisition
					first = false
					time.Sleep(usable + time.Second)
				}
			}
		})
		r.start(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"lost", "started 0", "stopped 0: lost", "started 1"}, d.read())
		require.NoError(t, r.stop())
	})
}

func TestTermThatIsLostWhileItsStartIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		first := true
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			d.keep(c)
			next := c.Hooks.OnStartedLeading
			c.Hooks.OnStartedLeading = func(term leaderelection.Term) {
				next(term)
				if first {
					first = false
					time.Sleep(usable + time.Second)
				}
			}
		})
		r.start(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"leader a", "started 0", "lost", "stopped 0: lost", "started 1"}, d.read(),
			"one end, after the start")
		require.NoError(t, r.stop())
	})
}

func TestHookThatBlocksCostsTheLeadershipAndNoMore(t *testing.T) {
	for _, c := range []struct {
		name  string
		block func(h *leaderelection.Hooks, block func())
	}{
		{"OnRenewal", func(h *leaderelection.Hooks, block func()) {
			h.OnRenewal = func(time.Duration, error) { block() }
		}},
		{"OnStoppedLeading", func(h *leaderelection.Hooks, block func()) {
			h.OnStoppedLeading = func(leaderelection.Term, error) { block() }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				freed := make(chan struct{})
				r := newReplica(t, newAPI(), "a", func(config *leaderelection.Config) {
					c.block(&config.Hooks, func() { <-freed })
					if config.Hooks.OnStoppedLeading == nil {
						config.Hooks.OnStoppedLeading = func(leaderelection.Term, error) {}
					}
				})
				r.start(t)
				time.Sleep(interval3)
				synctest.Wait()
				r.set(&r.refuse, down)
				time.Sleep(usable)
				synctest.Wait()
				assert.False(t, r.IsLeader())
				time.Sleep(50 * time.Millisecond)
				synctest.Wait()
				assert.Len(t, r.losses(), 1, "OnLost ends the process all the same")
				close(freed)
				synctest.Wait()
				require.NoError(t, r.stop(), "a candidate again")
			})
		})
	}
}

func TestHookThatBlocksDoesNotDelayAKnownLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI()
		freed := make(chan struct{})
		r := newReplica(t, a, "a", func(c *leaderelection.Config) {
			c.Hooks.OnNewLeader = func(identity string) {
				if identity == "thief" {
					<-freed
				}
			}
		})
		r.start(t)
		a.edit(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("thief") })
		time.Sleep(interval3)
		synctest.Wait()
		assert.Zero(t, r.last(t).end.Sub(r.last(t).start), "by the watch")
		assert.Len(t, r.losses(), 1)
		close(freed)
		synctest.Wait()
		require.NoError(t, r.stop())
	})
}

func TestOutcomesOfRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type renewal struct {
			latency time.Duration
			err     error
		}
		var seen []renewal
		var sick error
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			c.Healthy = func(context.Context) error { return sick }
			c.Hooks.OnRenewal = func(latency time.Duration, err error) { seen = append(seen, renewal{latency, err}) }
		})
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		last := func() renewal { return seen[len(seen)-1] }
		slowly := func(string) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		}

		r.set(&r.lose, slowly)
		require.NoError(t, r.Renew(t.Context()))
		assert.Equal(t, []renewal{{20 * time.Millisecond, nil}}, seen, "renewed")

		r.set(&r.lose, func(verb string) error {
			_ = slowly(verb)
			if verb == "update" {
				return down(verb)
			}
			return nil
		})
		require.NoError(t, r.Renew(t.Context()))
		assert.Equal(t, renewal{40 * time.Millisecond, nil}, last(), "renewed, as the record says")

		r.set(&r.lose, nil)
		r.set(&r.refuse, forbid("update"))
		require.Error(t, r.Renew(t.Context()))
		assert.ErrorContains(t, last().err, "cannot update")
		assert.NotErrorIs(t, last().err, leaderelection.ErrOutcomeUnknown, "the record does not say so: failed")

		r.set(&r.refuse, down)
		require.Error(t, r.Renew(t.Context()))
		assert.ErrorIs(t, last().err, leaderelection.ErrOutcomeUnknown)
		assert.ErrorContains(t, last().err, "the API server is down")

		r.set(&r.refuse, nil)
		sick = errSick
		require.Error(t, r.Renew(t.Context()))
		assert.ErrorIs(t, last().err, errSick)
		assert.ErrorIs(t, last().err, leaderelection.ErrUnhealthy)
		assert.Zero(t, last().latency, "not sent")

		n := len(seen)
		sick = nil
		r.api.edit(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("thief") })
		assert.ErrorIs(t, r.Renew(t.Context()), leaderelection.ErrLost)
		assert.ErrorIs(t, r.Renew(t.Context()), leaderelection.ErrNotLeader)
		assert.Len(t, seen, n, "a loss is reported as such")
	})
}

func TestNewLeadersAreReportedInOrderAndOnce(t *testing.T) {
	var told []string // without a lock: hooks exclude each other
	var e *leaderelection.Elector
	e, err := leaderelection.New(newAPI().client(), leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: "me", Hooks: leaderelection.Hooks{OnNewLeader: func(identity string) {
			told = append(told, identity)
			_, _ = e.Leader() // locks nothing that is locked
		}},
	})
	require.NoError(t, err)
	var watchers sync.WaitGroup
	for w := range 8 {
		watchers.Go(func() {
			for i := range 2000 {
				e.Observe([]string{"a", "b", "c", ""}[(i*7+w)%4])
			}
		})
	}
	watchers.Wait()
	e.Observe("z")
	last, _ := e.Leader()
	require.NotEmpty(t, told)
	assert.Equal(t, last, told[len(told)-1])
	assert.NotContains(t, told, "")
	assert.Len(t, slices.Compact(slices.Clone(told)), len(told), "twice in a row")
}

// deaf is a clock whose timers of functions never fire, as in a process that is starved.
type deaf struct{ clock.Clock }

func (d deaf) AfterFunc(_ time.Duration, f func()) clock.Timer {
	timer := d.Clock.AfterFunc(time.Hour, f)
	timer.Stop()
	return stopped{timer}
}

type stopped struct{ clock.Timer }

func (stopped) Reset(time.Duration) bool { return false }

func TestNoTermBeginsBeforeTheEndOfTheLastIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			d.keep(c)
			c.Clock = deaf{clock.System()}
		})
		_, err := r.TryAcquire(t.Context())
		require.NoError(t, err)
		time.Sleep(duration)
		require.False(t, r.IsLeader())
		require.Empty(t, r.losses(), "not noticed yet")
		_, err = r.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"leader a", "started 0", "stopped 0: lost", "lost", "started 1"}, d.read())
		require.NoError(t, r.Release(t.Context()))
	})
}
