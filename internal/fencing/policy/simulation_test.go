package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// cluster is a hundred nodes. Node w99 decides, by time that passes in steps. Fences have their
// devices switched for a while, boot for a while, and the node is back.
type cluster struct {
	t      *testing.T
	at     time.Time
	nodes  []policy.NodeFacts
	limits policy.Limits
	state  policy.State

	switched, boot time.Duration // how long a fence takes
	since          map[string]time.Time
	starts         []policy.Start
	fenced         map[string]int
	reasons        map[string]int
	most           int // fences with devices switched, at a time
}

func newCluster(t *testing.T, limits policy.Limits) *cluster {
	c := &cluster{
		t: t, at: now, nodes: workers(100), limits: limits, switched: 90 * time.Second, boot: 4 * time.Minute,
		since: map[string]time.Time{}, fenced: map[string]int{}, reasons: map[string]int{},
	}
	c.run(time.Minute) // it is observed, and all is well
	require.Empty(t, c.reasons)
	return c
}

const step = 20 * time.Second

// run lets time pass, and asks about each node that is not Ready in each step.
func (c *cluster) run(d time.Duration) {
	for end := c.at.Add(d); c.at.Before(end); {
		c.at = c.at.Add(step)
		var queue []policy.NodeFacts
		for i := range c.nodes {
			n := &c.nodes[i]
			switch since := c.at.Sub(c.since[n.Name]); {
			case n.Fence == policy.FenceActive && since >= c.switched:
				n.Fence, c.since[n.Name] = policy.FenceBooting, c.at
			case n.Fence == policy.FenceBooting && since >= c.boot:
				*n = healthy(n.Name)
			}
			if n.Ready != policy.True {
				fail(n, n.FailingFor+step)
				if n.Fence != policy.FenceActive && n.Fence != policy.FenceBooting {
					n.Fence = policy.FenceQueued
					queue = append(queue, *n)
				}
			}
		}
		c.state = c.state.Observe(c.view(), c.limits)
		for _, n := range policy.Order(queue) {
			c.ask(n)
		}
	}
}

func (c *cluster) view() policy.View {
	return policy.View{Now: c.at, Nodes: c.nodes, Starts: c.starts}
}

func (c *cluster) ask(target policy.NodeFacts) {
	d := policy.Decide(policy.Input{
		View: c.view(), State: c.state, Limits: c.limits,
		Target: policy.Target{Name: target.Name, UID: target.UID, Devices: 1},
		Self:   policy.Self{Node: "w99", LastAPIWrite: c.at},
	})
	c.reasons[d.Reason]++
	if d.Verdict != policy.Allow {
		return
	}
	c.fenced[target.Name]++
	c.starts = append(c.starts, policy.Start{Node: target.Name, At: c.at})
	active := 0
	for i := range c.nodes {
		n := &c.nodes[i]
		if n.Name == target.Name {
			n.Fence, c.since[n.Name] = policy.FenceActive, c.at
		}
		if n.Fence == policy.FenceActive {
			active++
		}
	}
	c.most = max(c.most, active)
}

func (c *cluster) lose(from, to int) {
	for i := from; i < to; i++ {
		fail(&c.nodes[i], 0)
	}
}

func TestStormOf60Of100FencesNoNode(t *testing.T) {
	c := newCluster(t, policy.Limits{MaxConcurrent: 5, MaxStarts: 1000})
	c.lose(0, 60) // at once, in the same moment
	c.run(time.Hour)
	assert.Empty(t, c.fenced)
	assert.Equal(t, 60*180, c.reasons[policy.ReasonStorm]+c.reasons[policy.ReasonSoonUnhealthy], "%v", c.reasons)

	// The switch is replaced: 10 machines stay dead. They are fenced after the cool-down.
	for i := 10; i < 60; i++ {
		c.nodes[i] = healthy(c.nodes[i].Name)
	}
	c.run(5 * time.Minute)
	assert.Empty(t, c.fenced)
	c.run(time.Hour)
	assert.Len(t, c.fenced, 10)
}

func TestLossOf30Of100FencesThemAll(t *testing.T) {
	for _, concurrent := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrent), func(t *testing.T) {
			c := newCluster(t, policy.Limits{MaxConcurrent: concurrent})
			c.lose(0, 30)
			c.run(4 * time.Hour)
			require.Len(t, c.fenced, 30)
			for name, times := range c.fenced {
				assert.Equal(t, 1, times, name)
			}
			for i := range c.nodes {
				assert.Equal(t, policy.True, c.nodes[i].Ready, c.nodes[i].Name)
			}
			assert.Equal(t, concurrent, c.most)
			assert.Positive(t, c.reasons[policy.ReasonQueue])
			assert.Positive(t, c.reasons[policy.ReasonRate])
			for i, s := range c.starts[10:] {
				assert.GreaterOrEqual(t, s.At.Sub(c.starts[i].At), time.Hour, "11 starts in an hour")
			}
		})
	}
}

// TestStormThatGrows loses one node after the other: those lost before it is one are fenced, and
// none after.
func TestStormThatGrows(t *testing.T) {
	c := newCluster(t, policy.Limits{MaxConcurrent: 3, MaxStarts: 1000})
	c.boot = 24 * time.Hour // whatever fails them keeps them from coming back
	for i := range 70 {
		c.lose(i, i+1)
		c.run(time.Minute)
	}
	fenced := len(c.fenced)
	assert.Less(t, fenced, 50)
	c.run(20 * time.Minute)
	assert.Len(t, c.fenced, fenced)
}

// TestNodeThatFailsAgainAndAgain is fenced three times in an hour, and then left for somebody to
// look at.
func TestNodeThatFailsAgainAndAgain(t *testing.T) {
	c := newCluster(t, policy.Limits{})
	c.boot = 2 * time.Minute
	for range 6 {
		if c.nodes[0].Ready == policy.True {
			c.lose(0, 1)
		}
		c.run(8 * time.Minute)
	}
	assert.Equal(t, 3, c.fenced["w0"])
	assert.Positive(t, c.reasons[policy.ReasonRepeats])
}

// TestLeaderAfterLeader changes the leader in the middle of it all: it knows nothing but the
// records.
func TestLeaderAfterLeader(t *testing.T) {
	c := newCluster(t, policy.Limits{})
	c.lose(0, 30)
	for range 16 {
		c.run(20 * time.Minute)
		c.state = policy.State{}
	}
	require.Len(t, c.fenced, 30)
	assert.Equal(t, 1, c.most)
	assert.Positive(t, c.reasons[policy.ReasonOwnPartition])
	assert.Positive(t, c.reasons[policy.ReasonCoolDown])
	for i, s := range c.starts[10:] {
		assert.GreaterOrEqual(t, s.At.Sub(c.starts[i].At), time.Hour, "11 starts in an hour")
	}
}
