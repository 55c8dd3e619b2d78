package policy

import "time"

// Gates that limit how many fences begin: of a node, within a time, and at a time.

func askRepeats(c *consideration) GateResult {
	limit, window := c.Limits.MaxRepeats, c.Limits.RepeatWindow
	starts := c.State.within(c.Now, window, c.Target.Name)
	switch {
	case c.Target.Switched:
		return begun()
	case c.Target.Act == Commission:
		return pass("this is not a fence")
	case c.Target.Restarted:
		return pass("an administrator has started this fence")
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
		// The fence of an earlier Node of this name has a slot too.
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
