package policy

import (
	"slices"
	"time"
)

// Gates that limit how many fences begin: of a node, within a time, and at a time.

// free returns the answer of the gates about fences that do not help, if they do not limit this one.
func (c *consideration) free() (GateResult, bool) {
	switch {
	case c.Target.Switched:
		return begun(), true
	case c.Target.Act == Commission:
		return pass("this is not a fence"), true
	case c.Target.Restarted:
		return pass("an administrator has started this fence"), true
	}
	return GateResult{}, false
}

func askRepeats(c *consideration) GateResult {
	limit, window := c.Limits.MaxRepeats, c.Limits.RepeatWindow
	starts := c.State.within(c.Now, window, c.Target.Name)
	if free, ok := c.free(); ok {
		return free
	}
	switch {
	case c.Target.Repeating:
		return hold(
			ReasonRepeats,
			"node %s has been fenced again and again: an administrator has to look, and to restart the fence",
			c.Target.Name,
		)
	case len(starts) >= limit:
		return hold(
			ReasonRepeats,
			"node %s has been fenced %s in %v, and %d is the limit: an administrator has to look, and to restart the "+
				"fence",
			c.Target.Name,
			number(len(starts), "time", "times"),
			window,
			limit,
		)
	}
	return pass(
		"node %s has been fenced %s in %v; the limit is %d",
		c.Target.Name,
		number(len(starts), "time", "times"),
		window,
		limit,
	)
}

// inVain is how long a fence counts whose node did not return.
const inVain = 6 * time.Hour

// askReturn holds a fence after two in a row that did not help. A restart may not mend what is
// wrong with the nodes, such as an expired certificate, and each fence would take the power of a
// working machine.
func askReturn(c *consideration) GateResult {
	if free, ok := c.free(); ok {
		return free
	}
	var ended []*NodeFacts // whose fences have an outcome, the last first
	for i := range c.Nodes {
		if n := &c.Nodes[i]; !c.is(n) && !n.Gone && n.Past.Outcome != OutcomeUnknown {
			ended = append(ended, n)
		}
	}
	slices.SortStableFunc(ended, func(a, b *NodeFacts) int { return b.Past.Began.Compare(a.Past.Began) })
	var stranded []string
	for _, n := range ended {
		if n.Past.Outcome != OutcomeStranded || c.Now.Sub(n.Past.Began) >= inVain {
			break
		}
		if stranded = append(stranded, n.Name); len(stranded) == 2 {
			return hold(ReasonNoReturn,
				"nodes %s and %s, the last ones to be fenced, did not return: fences may not help against what is "+
					"wrong. An administrator has to look, and to restart the fence",
				stranded[0], stranded[1])
		}
	}
	return pass("after %s in a row the node did not return; 2 are the limit", number(len(stranded), "fence", "fences"))
}

func askRate(c *consideration) GateResult {
	limit, window := c.Limits.MaxStarts, c.Limits.StartWindow
	switch {
	case c.Target.Switched:
		return begun()
	case c.Target.Act == Commission:
		return pass("this is not a fence")
	case c.Target.Act == Isolate:
		return pass("no device would be switched")
	}
	var starts []time.Duration
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Starting && !c.is(n) {
			starts = append(starts, 0)
		}
	}
	starts = append(starts, c.State.within(c.Now, window, "")...)
	if len(starts) >= limit {
		// Wait until enough of the youngest are too old.
		after := window - starts[limit-1]
		return wait(
			ReasonRate,
			after,
			"%s began in %v, and %d is the limit",
			number(len(starts), "fence", "fences"),
			window,
			limit,
		)
	}
	return pass("%s began in %v; the limit is %d", number(len(starts), "fence", "fences"), window, limit)
}

func askConcurrency(c *consideration) GateResult {
	switch {
	case c.Target.Switched:
		return begun()
	case c.Target.Act == Isolate:
		return pass("no device would be switched")
	}
	active := 0
	for i := range c.Nodes {
		// The fence of an earlier Node of this name also has a slot.
		if n := &c.Nodes[i]; n.Fence.slot() && n != c.node {
			active++
		}
	}
	if active >= c.Limits.MaxConcurrent {
		return hold(
			ReasonQueue,
			"%s under way, and %d is the limit",
			number(active, "fence is", "fences are"),
			c.Limits.MaxConcurrent,
		)
	}
	return pass("%s under way; the limit is %d", number(active, "fence is", "fences are"), c.Limits.MaxConcurrent)
}
