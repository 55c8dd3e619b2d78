package policy

import (
	"slices"
	"time"
)

// Input is everything that a decision depends on.
type Input struct {
	View
	// State is the last result of [State.Observe].
	State  State
	Target Target
	Self   Self
	// Paused is the reason why nothing may be fenced now, such as a maintenance window. Empty if
	// fences are not paused.
	Paused string
	// Storage reports whether this process reaches the storage, if Limits.RequireStorage is set.
	Storage Status
	Limits  Limits
}

// Decide decides whether the target may be fenced now. It depends on its input only. It evaluates
// all gates; the first gate that does not allow the fence gives the verdict.
//
// Decide on one node after another, in the order of [Order]. Add each allowed fence to the facts of
// the next View, because two decisions on the same View ignore each other.
func Decide(in Input) Decision {
	return decide(in, gates[:])
}

func decide(in Input, gates []gate) Decision {
	c := consider(in)
	d := Decision{
		Verdict: Allow,
		Reason:  ReasonAllowed,
		Message: "nothing stands in the way",
		Gates:   make([]GateResult, len(gates)),
	}
	for i, g := range gates {
		r := g.ask(c)
		r.Gate = g.name
		d.Gates[i] = r
		if d.Verdict == Allow && r.Verdict != Allow {
			d.Verdict, d.Reason, d.Message, d.After = r.Verdict, r.Reason, r.Message, r.After
		}
	}
	return d
}

// consideration is an input with values that several gates use.
type consideration struct {
	Input
	node   *NodeFacts // nil if no Node has the target's name and UID
	own    *NodeFacts // nil if no Node has the name of this process's node
	census census
	storms map[scope]bool
	err    error // of the limits
}

func consider(in Input) *consideration {
	c := &consideration{Input: in, err: in.Limits.Validate()}
	c.Limits = usable(in.Limits)
	c.State = in.State.Observe(in.View, in.Limits)
	c.census = count(in.Nodes, c.Limits.LeaseSilence)
	c.storms = c.census.storms(c.Limits.StormPercent)
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if n.Gone {
			continue
		}
		if n.Name == in.Target.Name && n.UID == in.Target.UID && n.UID != "" {
			c.node = n
		}
		if n.Name == in.Self.Node && n.Name != "" {
			c.own = n
		}
	}
	return c
}

// is reports whether n is the target. The fence of an earlier Node of the name may exist beside it.
func (c *consideration) is(n *NodeFacts) bool { return n.Name == c.Target.Name }

// failing returns how long the node has failed in a way that is a reason for the act. It is
// negative if unknown.
func (c *consideration) failing() time.Duration {
	if c.sparesReady() {
		return min(c.node.FailingFor, c.node.NotReadyFor)
	}
	return c.node.FailingFor
}

// sparesReady reports whether the act is not for Ready nodes. A power-off is not, whatever else
// fails, unless the limits allow it.
func (c *consideration) sparesReady() bool {
	trigger := c.Target.Trigger
	if trigger == "" || trigger == readyTrigger {
		return true
	}
	return c.Target.Act != SwitchOff && c.Target.Act != Isolate && !slices.Contains(c.Limits.FenceReadyNodes, trigger)
}
