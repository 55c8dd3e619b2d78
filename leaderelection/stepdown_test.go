package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestSimulatedStepDowns has leaders that are asked to end before the deadline. Some work takes
// longer than that: it ends with its process.
func TestSimulatedStepDowns(t *testing.T) {
	s := election((*sim.Process).Exit, meddle(byRenewal))
	s.Main = func(ctx context.Context, p *sim.Process) {
		runElector(ctx, p, leaderelection.Config{StepDown: 4 * time.Second}, (*sim.Process).Exit, leadSlowly)
	}
	sim.Prove(t, s, sim.Schedules(t, 300))
}

// TestSimulatedStepDownsOfGuardedWork judges the writes of leaders, as TestSimulatedSupervisors does.
func TestSimulatedStepDownsOfGuardedWork(t *testing.T) {
	s := supervised()
	s.Parent = nil
	s.Main = func(ctx context.Context, p *sim.Process) {
		runGuarded(ctx, p, func(c *leaderelection.Config) { c.StepDown = time.Second })
	}
	sim.Prove(t, s, sim.Schedules(t, 300))
}

// leadSlowly is work that goes on for up to 5 s after it was asked to end because of the deadline.
func leadSlowly(ctx context.Context, p *sim.Process, elector *leaderelection.Elector) error {
	p.Begin("l")
	defer p.End("l")
	asked := ctx.Done()
	var end <-chan time.Time
	for {
		tick := p.Clock.NewTimer(300 * time.Millisecond)
		select {
		case <-asked:
			asked = nil
			if !errors.Is(context.Cause(ctx), leaderelection.ErrSteppedDown) {
				tick.Stop()
				return ctx.Err()
			}
			seed := uint64(p.Clock.Now().Wall.UnixNano())
			end = p.Clock.NewTimer(time.Duration(rand.New(rand.NewPCG(seed, 0)).Int64N(int64(5 * time.Second)))).C()
		case <-end:
			tick.Stop()
			return context.Cause(ctx)
		case <-tick.C():
			if elector.IsLeader() {
				p.Act("l")
			}
		}
		tick.Stop()
	}
}

// daemon is an elector whose work returns so long after it was asked to.
type daemon struct {
	connection *apisim.Client
	elector    *leaderelection.Elector
	began      chan leaderelection.Term
	lost       chan error
	stop       func() error
}

func startDaemon(t *testing.T, server *apisim.Server, name string, c leaderelection.Config,
	takes time.Duration,
) *daemon {
	t.Helper()
	d := &daemon{
		connection: server.Client(name), began: make(chan leaderelection.Term, 100), lost: make(chan error, 100),
	}
	c.Namespace, c.Name, c.Identity = "ns", "l", name
	c.OnLost = func(err error) { d.lost <- err }
	var err error
	d.elector, err = leaderelection.New(kubernetes.NewForConfigOrDie(d.connection.Config()), c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- d.elector.Run(ctx, func(ctx context.Context) error {
			term, _ := leaderelection.TermFrom(ctx)
			d.began <- term
			<-ctx.Done()
			<-time.After(takes)
			return ctx.Err()
		})
	}()
	d.stop = func() error {
		cancel()
		return <-ended
	}
	return d
}

// An outage of the API server with default settings: no process ends, and the leader leads again as
// soon as the server is back.
func TestOutageWithStepDownEndsNoProcess(t *testing.T) {
	for _, outage := range []time.Duration{3 * time.Second, 20 * time.Second, 10 * time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apisim.NewServer()
				config := leaderelection.Config{StepDown: 3 * time.Second}
				a := startDaemon(t, server, "a", config, time.Second)
				defer func() { assert.NoError(t, a.stop()) }()
				first := <-a.began
				<-time.After(time.Minute)
				a.connection.Inject(apisim.Faults{Refuse: apisim.Always})
				<-time.After(outage)
				leads := a.elector.IsLeader()
				assert.Equal(t, outage < 9*time.Second, leads)
				a.connection.Inject(apisim.Faults{})
				back := time.Now()
				if !leads {
					next := <-a.began
					assert.Less(t, time.Since(back), 3*time.Second, "a pause between requests")
					assert.Equal(t, first.Transitions+1, next.Transitions)
				}
				<-time.After(time.Minute)
				assert.True(t, a.elector.IsLeader())
				assert.Empty(t, a.lost)
				assert.Empty(t, a.began)
			})
		})
	}
}

// A leader that has stepped down is succeeded like one that has died.
func TestOthersSucceedALeaderThatHasSteppedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		config := leaderelection.Config{StepDown: 3 * time.Second}
		a := startDaemon(t, server, "a", config, time.Second)
		defer func() { assert.NoError(t, a.stop()) }()
		<-a.began
		b := startDaemon(t, server, "b", config, time.Second)
		defer func() { assert.NoError(t, b.stop()) }()
		<-time.After(time.Minute)
		a.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		cut := time.Now()
		<-b.began
		assert.GreaterOrEqual(t, time.Since(cut), 12*time.Second)
		assert.LessOrEqual(t, time.Since(cut), 15*time.Second+100*time.Millisecond)
		a.connection.Inject(apisim.Faults{})
		<-time.After(time.Minute)
		assert.True(t, b.elector.IsLeader())
		assert.Empty(t, a.lost)
		assert.Empty(t, a.began, "the Lease is another's")
		b.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		<-a.began
		assert.Empty(t, b.lost)
	})
}

// Work that does not end in time, or that is not healthy, ends with its process.
func TestStepDownThatFailsIsALoss(t *testing.T) {
	t.Run("work that ignores its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := apisim.NewServer()
			a := startDaemon(t, server, "a", leaderelection.Config{StepDown: 3 * time.Second}, time.Hour)
			<-a.began
			<-time.After(time.Minute)
			a.connection.Inject(apisim.Faults{Refuse: apisim.Always})
			cut := time.Now()
			require.ErrorIs(t, <-a.lost, leaderelection.ErrLost)
			assert.LessOrEqual(t, time.Since(cut), 12*time.Second)
			a.connection.Inject(apisim.Faults{})
			require.ErrorIs(t, a.stop(), leaderelection.ErrLost)
		})
	})
	t.Run("work that is not healthy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := apisim.NewServer()
			var sick atomic.Bool
			a := startDaemon(t, server, "a", leaderelection.Config{
				StepDown: 3 * time.Second,
				Healthy: func(context.Context) error {
					if sick.Load() {
						return errSick
					}
					return nil
				},
			}, time.Second)
			<-a.began
			sick.Store(true)
			require.ErrorIs(t, <-a.lost, leaderelection.ErrUnhealthy)
			require.ErrorIs(t, a.stop(), leaderelection.ErrLost)
		})
	})
}

// Work that is healthy again before its deadline is not asked to end, if it would have been by then, too.
func TestWorkThatRecoversInTimeDoesNotStepDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		a := startDaemon(t, apisim.NewServer(), "a", leaderelection.Config{
			StepDown: 6 * time.Second,
			Healthy: func(context.Context) error {
				if sick.Load() {
					return errSick
				}
				return nil
			},
		}, time.Second)
		defer func() { assert.NoError(t, a.stop()) }()
		<-a.began
		<-time.After(61 * time.Second) // a second after a renewal
		sick.Store(true)
		<-time.After(9400 * time.Millisecond) // the last pause is at most 1.5 s
		sick.Store(false)
		<-time.After(time.Minute)
		assert.True(t, a.elector.IsLeader())
		assert.Empty(t, a.began)
		assert.Empty(t, a.lost)
	})
}

func TestStepDownLeavesTimeForTwoRenewals(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(apisim.NewServer().Client("a").Config())
	for stepDown, ok := range map[time.Duration]bool{
		0: true, 6 * time.Second: true, 6*time.Second + 1: false, -1: false,
	} {
		_, err := leaderelection.New(client, leaderelection.Config{Namespace: "ns", Name: "l", StepDown: stepDown})
		if ok {
			assert.NoError(t, err, stepDown)
		} else {
			assert.ErrorContains(t, err, "StepDown: must be from 0 to 6s")
		}
	}
}

// An election within the work of another lease, as of a sharder within its shard, ends when that lease
// steps down. It has no time for a release that nothing answers. If a guarded request may still be
// carried out, the Lease is taken back only when it has expired.
func TestElectionWithinALeaseThatStepsDownEndsInTime(t *testing.T) {
	refused, silent := apisim.Faults{Refuse: apisim.Always}, apisim.Faults{LoseRequest: apisim.Always}
	for name, c := range map[string]struct {
		stepDown        time.Duration
		outage          apisim.Faults
		writes          bool
		atLeast, atMost time.Duration // until it leads again
	}{
		"nothing is under way":        {6 * time.Second, refused, false, 0, 3 * time.Second},
		"a write is":                  {6 * time.Second, refused, true, 9 * time.Second, 18 * time.Second},
		"silence":                     {6 * time.Second, silent, false, 0, 3 * time.Second},
		"silence, a write":            {6 * time.Second, silent, true, 9 * time.Second, 18 * time.Second},
		"silence, without StepDown":   {0, silent, false, 0, 3 * time.Second},
		"silence without it, a write": {0, silent, true, 9 * time.Second, 18 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				connection := apisim.NewServer().Client("a")
				client := kubernetes.NewForConfigOrDie(connection.Config())
				elector, err := leaderelection.New(client, leaderelection.Config{
					Namespace: "ns", Name: "l", StepDown: c.stepDown,
					OnLost: func(err error) { assert.NoError(t, err) },
				})
				require.NoError(t, err)
				config := connection.Config()
				config.WrapTransport = elector.WrapTransport
				guarded := kubernetes.NewForConfigOrDie(config)
				outer, stepDown := context.WithCancelCause(t.Context())
				ended, began := make(chan error, 1), make(chan time.Time, 2)
				lead := func(ctx context.Context) error {
					began <- time.Now()
					<-ctx.Done()
					return ctx.Err()
				}
				go func() { ended <- elector.Run(outer, lead) }()
				<-began
				<-time.After(61 * time.Second) // between two renewals
				connection.Inject(c.outage)
				<-time.After(4 * time.Second)
				if c.writes {
					go func() {
						_ = guarded.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{})
					}()
					synctest.Wait()
				}
				asked := time.Now()
				stepDown(fmt.Errorf("of the shard: %w", leaderelection.ErrSteppedDown))
				assert.NoError(t, <-ended)
				assert.Zero(t, time.Since(asked))
				connection.Inject(apisim.Faults{})

				again, end := context.WithCancel(t.Context())
				go func() { ended <- elector.Run(again, lead) }()
				back := (<-began).Sub(asked)
				assert.GreaterOrEqual(t, back, c.atLeast)
				assert.LessOrEqual(t, back, c.atMost)
				end()
				assert.NoError(t, <-ended)
			})
		})
	}
}

// So does a candidate whose claim has no answer.
func TestCandidateWithinALeaseThatStepsDownEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		dead := startDaemon(t, server, "b", leaderelection.Config{}, 0)
		<-dead.began
		dead.connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
		connection := server.Client("a")
		elector, err := leaderelection.New(kubernetes.NewForConfigOrDie(connection.Config()),
			leaderelection.Config{Namespace: "ns", Name: "l"})
		require.NoError(t, err)
		outer, stepDown := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elector.Run(outer, func(context.Context) error { return nil }) }()
		<-time.After(14 * time.Second)
		connection.Inject(apisim.Faults{LoseRequest: apisim.Always})
		<-time.After(2 * time.Second) // its claim was sent a second ago
		asked := time.Now()
		stepDown(leaderelection.ErrSteppedDown)
		assert.NoError(t, <-ended)
		assert.Zero(t, time.Since(asked))
		_ = dead.stop()
	})
}
