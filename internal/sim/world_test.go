package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// working is a scenario in which every replica works, on something of its own unless it is to
// collide.
func working(collide bool) Scenario {
	return Scenario{
		MinReplicas: 2, MaxReplicas: 2, Duration: time.Minute, Quiet: time.Second, Unaware: time.Second,
		Main: func(ctx context.Context, p *Process) {
			key := p.Name[:1]
			if collide {
				key = "common"
			}
			p.Begin(key)
			defer p.End(key)
			for ctx.Err() == nil {
				timer := p.Clock.NewTimer(time.Second)
				select {
				case <-timer.C():
					p.Act(key)
				case <-ctx.Done():
				}
			}
		},
	}
}

// two are two replicas. The second one starts later.
func two(faults ...Fault) Plan {
	return Plan{Replicas: []Replica{{Rate: 1}, {Rate: 1, Start: 10 * time.Second}}, Faults: faults}
}

func TestReferee(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		name   string
		faults []Fault
		want   string
	}{
		{"two at once", nil, "10s: b1 begins to work on common while a1 works on it"},
		{
			"the first is stopped meanwhile",
			[]Fault{{Kind: Pausing, At: 5500 * ms, For: 25 * s}},
			"31s: b1 acts on common while a1",
		},
		{
			"the first is suspended and needs a second to notice",
			[]Fault{{Kind: Pausing, At: 5500 * ms, For: 25 * s, Count: int(Suspend)}},
			"31s: a1 acts on common",
		},
		{
			"the first is dead",
			[]Fault{{Kind: Kill, At: 5500 * ms, For: 15 * s}},
			"20.5s: a2 begins to work on common while b1 works on it",
		},
		{
			"the first has ended",
			[]Fault{{Kind: Terminate, At: 5500 * ms, For: 15 * s}},
			"10s: b1 begins to work on common while a2 works on it",
		},
		{"a stopped process that is asked to end does so when it goes on", []Fault{
			{Kind: Pausing, At: 5500 * ms, For: 20 * s}, {Kind: Terminate, At: 6 * s, For: 50 * s},
		}, "26.5s: a2 begins"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Play(t, working(true), two(c.faults...), nil)
			assert.True(t, strings.HasPrefix(r.Violation, c.want), "%s", r.Violation)
		})
	}
	assert.Empty(t, Play(t, working(false), two(), nil).Violation)
}

func TestRule(t *testing.T) {
	s := working(true)
	verdict := func(violation, excuse string, of func(p, other *Process) bool) {
		s.Rule = func(*World) Rule {
			return func(p, other *Process) (string, string) {
				if of(p, other) {
					return violation, excuse
				}
				return "", ""
			}
		}
	}
	verdict("", "old", func(_, other *Process) bool { return other != nil })
	r := Play(t, s, two(Fault{Kind: Kill, At: 20 * time.Second, For: time.Second}), nil)
	assert.Empty(t, r.Violation)
	assert.Equal(t, map[string]int{"old": 2}, r.Excused, "a1 with b1, and a2 with b1, however often they act")

	verdict("bad", "", func(_, other *Process) bool { return other != nil })
	assert.Equal(t, "10s: b1 begins to work on common while a1 works on it: bad", Play(t, s, two(), nil).Violation)
	verdict("bad", "", func(p, other *Process) bool { return p.Name == "b1" && other == nil })
	assert.Equal(t, "10s: b1 begins to work on common: bad", Play(t, s, two(), nil).Violation)
}

func TestImmunity(t *testing.T) {
	s := working(false)
	s.Immune = func(p *Process, k Kind) bool { return p.Name == "a1" && k == Kill }
	kill := func(replica int) Fault {
		return Fault{Kind: Kill, At: 20 * time.Second, For: time.Second, Replica: replica}
	}
	assert.Equal(t, 2, Play(t, s, two(kill(0)), nil).Begun)
	assert.Equal(t, 3, Play(t, s, two(kill(1)), nil).Begun)
}

func TestCheckAndFailAreViolations(t *testing.T) {
	s := working(false)
	s.Check = func(w *World) error {
		assert.NoError(t, w.ExactlyOne("a"))
		assert.Equal(t, errNone, w.ExactlyOne("c"))
		return errors.New("wrong")
	}
	r := Play(t, s, two(), nil)
	assert.Equal(t, "1m1s: at the end: wrong", r.Violation)
	assert.Equal(t, 61*time.Second, r.At)
	assert.Equal(t, 2, r.Begun)

	s.Main = func(_ context.Context, p *Process) {
		p.Fail("is %s", "wrong")
		p.Exit()
	}
	assert.Equal(t, "0s: a1 is wrong", Play(t, s, two(), nil).Violation)
}

func TestExitedProcessIsStartedAgain(t *testing.T) {
	s := working(false)
	var started []string
	s.Main = func(_ context.Context, p *Process) {
		started = append(started, p.Name)
		p.Exit()
		t.Error("goes on after its end")
	}
	s.Duration = 2500 * time.Millisecond
	s.Quiet = 0
	Play(t, s, Plan{Replicas: []Replica{{Rate: 1}}}, nil)
	assert.Equal(t, []string{"a1", "a2", "a3"}, started)
}

func TestPlanFollowsFromTheSeed(t *testing.T) {
	s := Scenario{MinReplicas: 2, MaxReplicas: 5, Duration: 10 * time.Minute, RateError: 0.1}
	again := newPlan(s, 7)
	assert.Equal(t, newPlan(s, 7), again)
	assert.NotEqual(t, newPlan(s, 7), newPlan(s, 8))
	drawn := map[Kind]int{}
	for seed := range uint64(200) {
		p := newPlan(s, seed)
		assert.GreaterOrEqual(t, len(p.Replicas), 2)
		assert.LessOrEqual(t, len(p.Replicas), 5)
		for _, f := range p.Faults {
			drawn[f.Kind]++
			require.LessOrEqual(t, f.At+f.For, s.Duration)
		}
	}
	assert.Zero(t, drawn[Interference], "the scenario has none")
	assert.Len(t, drawn, len(kinds)-3, "nor annotations, and it is not made for odd answers")
	s.Interfere, s.Annotate, s.Odd = func(*World, *rand.Rand) {}, func(*World) {}, true
	for seed := range uint64(200) {
		for _, f := range newPlan(s, seed).Faults {
			drawn[f.Kind]++
		}
	}
	assert.Positive(t, drawn[Interference])
}

func TestLiveness(t *testing.T) {
	const s = time.Second
	idle := working(false)
	idle.Main = func(ctx context.Context, _ *Process) { <-ctx.Done() }
	idle.Duration, idle.Quiet, idle.Bound = 5*time.Minute, s, time.Minute
	play := func(change func(*Scenario), faults ...Fault) Result {
		scenario := idle
		if change != nil {
			change(&scenario)
		}
		return Play(t, scenario, two(faults...), nil)
	}
	assert.Contains(t, play(nil).Violation, "1m2s: no process has worked for 1m1s, although a1 and the server have "+
		"no fault")
	assert.Empty(t, play(func(s *Scenario) { s.Main = working(false).Main }).Violation, "all work")

	ill := func(replica int, kind Kind) Fault {
		return Fault{Kind: kind, At: 11 * s, For: 5 * time.Minute, Replica: replica}
	}
	assert.Contains(t, play(nil, ill(0, Partition)).Violation, "although b1 and the server have no fault")
	assert.Empty(t, play(nil, ill(0, Partition), ill(1, Pausing)).Violation, "no process is well")
	assert.Empty(t, play(nil, ill(0, Outage)).Violation, "the server is not")
	assert.Empty(t, play(func(s *Scenario) { s.Candidate = func(*Process) bool { return false } }).Violation)

	var blinks []Fault
	for at := s; at < 5*time.Minute; at += 30 * s {
		blinks = append(blinks, Fault{Kind: Latency, At: at + 100*time.Millisecond, For: 300 * time.Millisecond},
			Fault{Kind: Kill, At: at, For: s, Replica: 1})
	}
	assert.Empty(t, play(nil, blinks...).Violation, "faults between two looks count")

	writes := func(name string) func(*Scenario) {
		return func(s *Scenario) {
			s.Main = func(ctx context.Context, p *Process) {
				for ; ctx.Err() == nil; time.Sleep(20 * time.Second) {
					if p.Name[:1] == name {
						l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{GenerateName: "l-"}}
						_, _ = kubernetes.NewForConfigOrDie(p.Config()).CoordinationV1().Leases("ns").Create(ctx, l,
							metav1.CreateOptions{})
					}
				}
			}
		}
	}
	slow := Fault{Kind: Latency, At: s, For: 5 * time.Minute, Replica: 1, Amount: s}
	assert.Empty(t, play(writes("b"), slow).Violation, "one that is not well may have taken what all wait for")
	assert.Contains(t, play(writes("a"), slow).Violation, "although a1 and the server have no fault",
		"what is written by one that is well is no excuse")

	var written int
	annotated := play(func(s *Scenario) { s.Annotate = func(*World) { written++ } },
		Fault{Kind: Annotations, At: s, For: 30 * s, Amount: s})
	assert.Contains(t, annotated.Violation, "1m2s: no process has worked", "writing metadata is no excuse")
	assert.InDelta(t, 30, written, 1)
}
