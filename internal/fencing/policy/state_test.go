package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// life decides about w0 of ten nodes over time.
type life struct {
	at     time.Time
	nodes  []policy.NodeFacts
	limits policy.Limits
	state  policy.State
}

// pass lets time go by in steps. What is not Ready goes on failing.
func (l *life) pass(d, step time.Duration) {
	for end := l.at.Add(d); l.at.Before(end); {
		l.at = l.at.Add(step)
		for i := range l.nodes {
			if n := &l.nodes[i]; n.Ready != policy.True {
				fail(n, n.FailingFor+step)
			}
		}
		l.state = l.state.Observe(policy.View{Now: l.at, Nodes: l.nodes}, l.limits)
	}
}

func (l *life) decide() policy.Decision {
	return policy.Decide(policy.Input{
		View: policy.View{Now: l.at, Nodes: l.nodes}, State: l.state, Limits: l.limits,
		Target: policy.Target{Name: "w0", UID: "uid-w0", Devices: 1},
		Self:   policy.Self{Node: "w9", LastAPIWrite: l.at},
	})
}

func TestCoolDownFollowsTheStorm(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	l.pass(time.Minute, time.Second)
	for i := range 5 {
		fail(&l.nodes[i], 0)
	}
	l.pass(10*time.Minute, time.Second)
	require.Equal(t, policy.ReasonStorm, l.decide().Reason)

	// It ends. From the first view in which it is over, not from the last in which it was not:
	// no one has looked in between.
	l.nodes[4] = healthy("w4")
	l.pass(30*time.Second, 30*time.Second)
	d := l.decide()
	assert.Equal(t, policy.Wait, d.Verdict)
	assert.Equal(t, policy.ReasonCoolDown, d.Reason)
	assert.Equal(t, 5*time.Minute, d.After)
	l.pass(d.After-time.Second, time.Second)
	assert.Equal(t, time.Second, l.decide().After)

	// It comes back for a moment, and all begins again.
	fail(&l.nodes[4], 0)
	l.pass(time.Second, time.Second)
	require.Equal(t, policy.ReasonStorm, l.decide().Reason)
	l.nodes[4] = healthy("w4")
	l.pass(time.Second, time.Second)
	assert.Equal(t, 5*time.Minute, l.decide().After)
	l.pass(5*time.Minute, time.Second)
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}

func TestBeginningIsNoStorm(t *testing.T) {
	// No Lease has been seen to be renewed yet.
	l := &life{at: now, nodes: workers(10)}
	for i := range l.nodes {
		l.nodes[i].LeaseSilentFor = policy.NotSeen
	}
	fail(&l.nodes[0], time.Hour)
	l.pass(30*time.Second, time.Second)
	for i := 1; i < 10; i++ {
		l.nodes[i].LeaseSilentFor = time.Second
	}
	d := l.decide()
	assert.Equal(t, policy.ReasonOwnPartition, d.Reason, d.Message)
	l.pass(11*time.Second, time.Second)
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}

func TestNewLeaderMayHaveMissedTheEndOfAStorm(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	fail(&l.nodes[0], time.Hour)
	fail(&l.nodes[1], time.Hour)
	l.pass(42*time.Second, time.Second)
	d := l.decide()
	assert.Equal(t, policy.ReasonCoolDown, d.Reason)
	assert.Equal(t, 5*time.Minute-time.Second, d.After)
	l.pass(d.After, time.Second)
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}

func TestProcessThatWasStoppedObservesAgain(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	fail(&l.nodes[0], time.Hour)
	l.pass(time.Minute, time.Second)
	require.Equal(t, policy.Allow, l.decide().Verdict)

	l.at = l.at.Add(41 * time.Second)
	d := l.decide()
	assert.Equal(t, policy.ReasonOwnPartition, d.Reason)
	assert.Equal(t, 40*time.Second, d.After)
	l.pass(41*time.Second, time.Second)
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}

func TestProcessThatWasStoppedInAStormStillCoolsDown(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	l.pass(time.Minute, time.Second)
	for i := range 5 {
		fail(&l.nodes[i], 0)
	}
	l.pass(time.Minute, time.Second)
	l.at = l.at.Add(time.Hour)
	for i := 1; i < 5; i++ {
		l.nodes[i] = healthy(l.nodes[i].Name)
	}
	l.pass(41*time.Second, time.Second)
	d := l.decide()
	assert.Equal(t, policy.ReasonCoolDown, d.Reason, d.Message)
	assert.Equal(t, 5*time.Minute, d.After)
}

func TestObservationIsConfigurable(t *testing.T) {
	l := &life{at: now, nodes: workers(10), limits: policy.Limits{Observation: 5 * time.Second}}
	fail(&l.nodes[0], time.Hour)
	l.pass(5*time.Second, time.Second)
	assert.Equal(t, time.Second, l.decide().After)
	l.pass(time.Second, time.Second)
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}

func TestStatesAreValues(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	l.pass(time.Minute, time.Second)
	before, decision := l.state, l.decide()
	start := policy.View{Now: l.at, Nodes: workers(10), Starts: []policy.Start{{Node: "w0", At: l.at}}}
	for i := range 9 {
		fail(&start.Nodes[i], 0)
	}
	after := before.Observe(start, l.limits)
	assert.NotEqual(t, before, after)
	l.state = before
	assert.Equal(t, decision, l.decide())

	// Of two that follow the same one, neither knows of the other.
	one := after.Observe(policy.View{Now: l.at.Add(time.Second), Nodes: workers(10)}, l.limits)
	assert.NotEqual(t, one, after.Observe(policy.View{Now: l.at.Add(time.Second), Nodes: start.Nodes}, l.limits))
	assert.Equal(t, one, after.Observe(policy.View{Now: l.at.Add(time.Second), Nodes: workers(10)}, l.limits))
}

func TestInvalidLimitsForgetNothing(t *testing.T) {
	in := sample()
	started(&in, "w0", minutes(1, 3)...)
	for range 2 {
		in.State = in.State.Observe(in.View, policy.Limits{StartWindow: -1, RepeatWindow: -1, CoolDown: -1})
		in.Starts = nil
	}
	assert.Equal(t, policy.ReasonRepeats, policy.Decide(in).Reason)
}

func TestClockFarAheadDoesNotBlockForYears(t *testing.T) {
	l := &life{at: now, nodes: workers(10)}
	fail(&l.nodes[0], time.Hour)
	var starts []policy.Start
	for range 3 {
		starts = append(starts, policy.Start{Node: "w0", At: now.AddDate(10, 0, len(starts))})
	}
	for range 3600 {
		l.at = l.at.Add(time.Second)
		l.state = l.state.Observe(policy.View{Now: l.at, Nodes: l.nodes, Starts: starts}, l.limits)
	}
	require.Equal(t, policy.ReasonRepeats, l.decide().Reason)
	for range 5 {
		l.at = l.at.Add(time.Second)
		l.state = l.state.Observe(policy.View{Now: l.at, Nodes: l.nodes, Starts: starts}, l.limits)
	}
	assert.Equal(t, policy.Allow, l.decide().Verdict, l.decide().Message)
}
