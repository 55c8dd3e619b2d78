package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// effectsOfAFence is how many writes and commands a fence consists of. A conflict may add one, and
// so does a hold.
const effectsOfAFence = 26

// soaking says that there is time for everything.
func soaking() bool { return os.Getenv(e2e.SoakEnv) != "" }

func TestFenceConsistsOfEffects(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.database(time.Hour)
	p := l.start()
	l.checked()
	l.lose()
	l.reaches(v1alpha1.PhaseFinal)
	l.requireRecovered()
	// by the last effect
	l.eventually("the fencer has let go of the record", func() bool { return len(l.record().Finalizers) == 0 })
	// Pods that other tests have left on the machine are released, too.
	effects := slices.DeleteFunc(l.effects(p), func(what string) bool {
		return strings.Contains(what, "/pods/") && !strings.Contains(what, "/namespaces/"+l.world.namespace+"/")
	})
	for i, what := range effects {
		t.Logf("%2d %s", i+1, what)
	}
	held := strings.Count(l.log(p), `"transition": "Held"`) // for what befalls the nodes of other tests
	assert.GreaterOrEqual(t, len(effects)-held, effectsOfAFence)
	assert.LessOrEqual(t, len(effects)-held, effectsOfAFence+3, "there are more than deaths are tried for")
	l.stop(p)
}

// A fencer is killed just before or just after one of its effects, and another one goes on. The
// machine loses its power once, and nothing is left behind. All effects are tried when soaking,
// otherwise some.
func TestFencerDies(t *testing.T) {
	t.Parallel()
	every := 9 // odd, so that both are tried
	if soaking() {
		every = 1
	}
	for i := 0; i < 2*effectsOfAFence; i += every {
		env := fmt.Sprintf("DIE_AFTER=%d", i/2+1)
		if i%2 == 0 {
			env += ",before"
		}
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, false)
			l.database(time.Hour)
			dying := l.start(env)
			l.checked()
			l.lose()
			l.requireKilled(dying)
			began := time.Now()
			next := l.start()
			l.eventually("the next one leads", func() bool { return strings.Contains(l.log(next), "started leading") })
			l.reaches(v1alpha1.PhaseFinal)
			t.Logf("died at %q; ended %.1f s later", l.effects(dying)[i/2], time.Since(began).Seconds())
			l.requireRecovered()
			l.stop(next)
		})
	}
}

// Two fencers run, and the leader is killed when the power has just been cut: mostly the first,
// unless it has lost its leadership to the second before.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.database(time.Hour)
	first := l.start("DIE_AFTER=switch off")
	l.checked()
	l.eventually("the first leads", func() bool { return strings.Contains(l.log(first), "started leading") })
	second := l.start("DIE_AFTER=switch off")
	l.lose()
	standby := second
	l.eventually("the leader has died", func() bool {
		if l.killed(second) {
			standby = first
		}
		return standby == first || l.killed(first)
	})
	require.Equal(t, 1, l.cuts())
	l.reaches(v1alpha1.PhaseFinal)
	l.requireRecovered()
	l.stop(standby)
}

// Two fencers run, and the leader is ended, or stopped for longer than its Lease, at one of the
// effects that it has on the world. The other goes on. When the stopped one wakes, it believes that
// it leads still, and does nothing. All effects are tried when soaking.
func TestLeadershipChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		begin  func(*e2e.Process) error
		every  int // which effects are tried
		sleeps bool
	}{
		"asked to end": {begin: (*e2e.Process).Terminate, every: 11},
		"stopped":      {begin: (*e2e.Process).Pause, every: 13, sleeps: true},
	} {
		if soaking() {
			change.every = 1
		}
		for effect := 4; effect < effectsOfAFence; effect += change.every {
			t.Run(fmt.Sprintf("%s at %d", name, effect), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, false)
				l.database(time.Hour)
				var leader atomic.Pointer[e2e.Process]
				begun := make(chan struct{})
				begin := sync.OnceFunc(func() {
					if err := change.begin(leader.Load()); !errors.Is(err, os.ErrProcessDone) {
						// or it has lost its leadership at this moment
						assert.NoError(t, err)
						close(begun)
					}
				})
				leader.Store(l.keep(l.startBy(l.user(), func(line string) {
					if strings.HasPrefix(line, fmt.Sprintf("effect %d:", effect)) {
						begin()
					}
				})))
				l.checked()
				l.eventually("the first leads",
					func() bool { return strings.Contains(l.log(leader.Load()), "started leading") })
				standby := l.start()
				l.lose()
				l.reaches(v1alpha1.PhaseFinal)
				l.requireRecovered()
				changed := false
				l.eventually("the leadership has changed", func() bool {
					select {
					case <-begun:
						changed = true
						return true
					// or it has lost its leadership before, as this machine was too slow for it,
					// and the other one has done the rest
					default:
						return len(l.effects(standby)) > 0
					}
				})
				if changed && change.sleeps {
					before, woken := len(l.effects(leader.Load())), leader.Load().Done()
					require.NoError(t, leader.Load().Resume())
					<-woken
					assert.LessOrEqual(t, len(l.effects(leader.Load())), before+1, "it has gone on: %s",
						l.log(leader.Load()))
					l.requireRecovered()
				}
				l.stop(standby)
			})
		}
	}
}

// killed says whether a fencer has killed itself.
func (l *lab) killed(p *e2e.Process) bool {
	l.t.Helper()
	select {
	case <-p.Done():
	default:
		return false
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Second) // it may be restarting at this moment
	defer cancel()
	exit, err := p.Wait(ctx)
	return err == nil && exit.Signal == syscall.SIGKILL
}

// requireKilled waits until a fencer has killed itself.
func (l *lab) requireKilled(p *e2e.Process) {
	l.t.Helper()
	var exit e2e.Exit
	l.eventually("the fencer has died", func() bool {
		select {
		case <-p.Done():
		default:
			return false
		}
		var err error
		exit, err = p.Wait(l.t.Context())
		require.NoError(l.t, err)
		return exit.Code != lostLeadership
	})
	require.Equal(l.t, syscall.SIGKILL, exit.Signal, "%v: %s", exit, l.log(p))
}
