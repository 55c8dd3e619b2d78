package policy

import (
	"fmt"
	"strings"
	"time"
)

type gate struct {
	name string
	ask  func(*consideration) GateResult
}

var gates = [...]gate{
	{GateIdentity, askIdentity},
	{GateMachine, askMachine},
	{GateSelection, askSelection},
	{GateOwnHost, askOwnHost},
	{GateAdmin, askAdmin},
	{GateDuration, askDuration},
	{GateReadiness, askReadiness},
	{GateOwnPartition, askOwnPartition},
	{GateStorage, askStorage},
	{GateStorm, askStorm},
	{GateZoneStorm, askZoneStorm},
	{GateCoolDown, askCoolDown},
	{GateControlPlane, askControlPlane},
	{GateRepeats, askRepeats},
	{GateReturn, askReturn},
	{GateRate, askRate},
	{GateConcurrency, askConcurrency},
}

func pass(format string, args ...any) GateResult {
	return GateResult{Verdict: Allow, Message: fmt.Sprintf(format, args...)}
}

func deny(reason string, format string, args ...any) GateResult {
	return GateResult{Verdict: Deny, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func hold(reason string, format string, args ...any) GateResult {
	return GateResult{Verdict: Hold, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wait(reason string, after time.Duration, format string, args ...any) GateResult {
	return GateResult{Verdict: Wait, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

// begun is the answer of gates that limit starts.
func begun() GateResult { return pass("this fence has already switched a device") }

// noNode is the answer of gates without a node; the first one denies.
func noNode(reason string) GateResult { return hold(reason, "there is no such node") }

// span formats d for an admin. It is cut, never rounded up, so that it does not seem to have
// reached a limit.
func span(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }

func askIdentity(c *consideration) GateResult {
	t := &c.Target
	switch {
	case t.UID == "":
		return deny(ReasonNodeGone, "it is not known which node %q was, as no UID was recorded", t.Name)
	case c.node == nil:
		for i := range c.Nodes {
			if n := &c.Nodes[i]; n.Name == t.Name && !n.Gone {
				return deny(ReasonNodeGone, "node %s is another one now: its UID is %q, and was %q", t.Name, n.UID,
					t.UID)
			}
		}
		return deny(ReasonNodeGone, "node %s is gone: its machine may have another owner now", t.Name)
	case c.node.Deleting:
		return deny(ReasonNodeGone, "node %s is being deleted", t.Name)
	case c.node.AutoscalerTaint:
		return deny(ReasonNodeGone, "node %s is about to be removed by an autoscaler", t.Name)
	}
	return pass("node %s is the one that failed, by its UID %s", t.Name, t.UID)
}

func askSelection(c *consideration) GateResult {
	switch {
	case c.node == nil:
		return noNode(ReasonExcluded)
	case c.node.Excluded:
		return deny(ReasonExcluded, "node %s is excluded from fencing by its label", c.Target.Name)
	case !c.node.Selected:
		return deny(ReasonExcluded, "node %s is not one of those selected for fencing", c.Target.Name)
	}
	return pass("node %s is selected", c.Target.Name)
}

func askOwnHost(c *consideration) GateResult {
	switch {
	case c.Self.OutsideCluster:
		return pass("the controller runs on another node")
	case c.Self.Node == "":
		return hold(ReasonOwnHost, "the controller does not know on which node it runs")
	case c.Self.Node == c.Target.Name:
		// Not Deny, because the next leader can fence it.
		return hold(ReasonOwnHost, "the controller runs on node %s itself: another replica has to fence it",
			c.Target.Name)
	}
	return pass("the controller runs on node %s", c.Self.Node)
}

func askAdmin(c *consideration) GateResult {
	if c.Paused != "" {
		return hold(ReasonPaused, "paused: %s", c.Paused)
	}
	return pass("not paused")
}

func askDuration(c *consideration) GateResult {
	if c.node == nil {
		return noNode(ReasonSoonUnhealthy)
	}
	limit := c.Limits.NotReadyFor
	if c.Target.NotReadyFor > 0 {
		limit = c.Target.NotReadyFor
	}
	if c.Target.Act == Commission {
		return c.askWorking()
	}
	failing := c.failing()
	joining := c.node.EverReady != True && !c.Target.Switched // after the start, the process that allowed it knew
	switch {
	case joining && c.node.EverReady == False:
		return hold(ReasonJoining, "node %s was never Ready: it is still joining", c.Target.Name)
	case joining:
		return hold(ReasonJoining, "it is not known whether node %s was ever Ready: it may be joining", c.Target.Name)
	case c.node.Ready == Missing:
		return hold(ReasonJoining, "node %s shows no Ready condition", c.Target.Name)
	case c.node.Ready == True && c.sparesReady():
		return hold(ReasonStillReady, "node %s is Ready", c.Target.Name)
	case failing < 0:
		return wait(
			ReasonSoonUnhealthy,
			limit,
			"it is not known for how long node %s has been failing; it has to for %v",
			c.Target.Name,
			limit,
		)
	case failing < limit:
		return wait(
			ReasonSoonUnhealthy,
			limit-failing,
			"node %s has been failing for %v; it has to for %v",
			c.Target.Name,
			span(failing),
			limit,
		)
	}
	return pass("node %s has been failing for %v, and %v is enough", c.Target.Name, span(failing), limit)
}

// askWorking requires a working node for a commission, because the end of a node that fails anyway
// proves nothing.
func (c *consideration) askWorking() GateResult {
	switch {
	case c.Target.Switched:
		return begun()
	case c.node.Ready != True, c.node.FailingFor != 0, c.node.NotReadyFor != 0:
		return hold(ReasonFailing, "node %s is failing: only a node that works can be seen to go away", c.Target.Name)
	case c.node.LeaseSilentFor < 0: // not watched for long enough
		return wait(
			ReasonFailing,
			time.Second,
			"the Lease of node %s %s; it has to be",
			c.Target.Name,
			renewed(c.node.LeaseSilentFor),
		)
	case c.node.silent(c.Limits.LeaseSilence):
		return hold(
			ReasonFailing,
			"the Lease of node %s %s; it has to be renewed within %v",
			c.Target.Name,
			renewed(c.node.LeaseSilentFor),
			c.Limits.LeaseSilence,
		)
	}
	return pass("node %s works", c.Target.Name)
}

func askReadiness(c *consideration) GateResult {
	t := &c.Target
	switch {
	case c.err != nil:
		return hold(ReasonNotConfigured, "the limits are invalid: %s", oneLine(c.err.Error()))
	case t.Switched:
		// Its configuration is pinned. The devices that it has switched off may power its other
		// devices.
		return begun()
	case c.node == nil:
		return noNode(ReasonNotConfigured)
	case len(t.ConfigErrors) > 0:
		return hold(ReasonNotConfigured, "the configuration of node %s has %s: %s",
			t.Name, number(len(t.ConfigErrors), "error", "errors"), strings.Join(t.ConfigErrors, "; "))
	case t.Devices <= 0 && (!t.WithoutPower || t.Act == PowerOff || t.Act == Commission):
		return hold(ReasonNotConfigured, "no device is configured that can switch off node %s", t.Name)
	case c.node.FenceReady == False:
		return hold(
			ReasonNotConfigured,
			"the last check of the devices of node %s has failed%s",
			t.Name,
			because(c.node.NotFenceable),
		)
	case c.node.FenceReady != True:
		return hold(ReasonNotConfigured, "the devices of node %s have not been checked", t.Name)
	case len(t.Unproved) > 0 && t.Act != Commission:
		return hold(
			ReasonNotConfigured,
			"node %s was not commissioned with its present configuration: it is not known whether these are its "+
				"devices: %s",
			t.Name,
			strings.Join(t.Unproved, ", "),
		)
	}
	return pass("node %s has %s, and the last check was good", t.Name, number(t.Devices, "device", "devices"))
}

func askOwnPartition(c *consideration) GateResult {
	silence := c.Limits.LeaseSilence
	if left := c.State.unobserved(c.Now, c.Limits.Observation); left > 0 {
		r := hold(ReasonOwnPartition, "this controller has to watch the nodes for %v before it judges them; %v are "+
			"left",
			c.Limits.Observation, span(left))
		r.After = left
		return r
	}
	// A write may have been confirmed after this view. If the age is far below zero, one of the
	// times is wrong.
	age := c.Now.Sub(c.Self.LastAPIWrite)
	switch {
	case c.Self.LastAPIWrite.IsZero() || age < -c.Limits.APISilence:
		return hold(
			ReasonOwnPartition,
			"it is not known when the API server last confirmed a write of this controller; it has to within %v",
			c.Limits.APISilence,
		)
	case age > c.Limits.APISilence:
		return hold(
			ReasonOwnPartition,
			"the API server last confirmed a write of this controller %v ago; it has to within %v",
			span(age),
			c.Limits.APISilence,
		)
	}
	if !c.Self.OutsideCluster {
		switch {
		case c.own == nil:
			return hold(ReasonOwnPartition, "nothing is known of the controller's own node %q", c.Self.Node)
		case c.own.silent(silence):
			return hold(ReasonOwnPartition, "the Lease of the controller's own node %s %s; it has to be renewed "+
				"within %v",
				c.own.Name, renewed(c.own.LeaseSilentFor), silence)
		}
	}
	others, alive := 0, 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if c.is(n) || n.Gone {
			continue
		}
		others++
		if !n.silent(silence) {
			alive++
		}
	}
	if alive == 0 {
		return hold(
			ReasonOwnPartition,
			"of %s none has renewed its Lease within %v: it may be this controller that is cut off",
			number(others, "other node", "other nodes"),
			silence,
		)
	}
	return pass("%d of %s renewed their Leases within %v", alive, number(others, "other node", "other nodes"), silence)
}

func askStorage(c *consideration) GateResult {
	switch {
	case c.node != nil && c.node.StorageLost && !c.Target.Switched:
		// After devices were switched, the node may have lost its storage because of them.
		return hold(
			ReasonStorageUnreachable,
			"node %s reports that it cannot reach its storage: it may be the storage that has failed",
			c.Target.Name,
		)
	case !c.Limits.RequireStorage:
		return pass("whether the controller reaches the storage does not matter")
	case c.Storage == False:
		return hold(ReasonStorageUnreachable, "the controller does not reach the storage")
	case c.Storage != True:
		return hold(ReasonStorageUnreachable, "it is not known whether the controller reaches the storage")
	}
	return pass("the controller reaches the storage")
}

func askControlPlane(c *consideration) GateResult {
	switch {
	case c.node == nil:
		return noNode(ReasonQuorum)
	case !c.node.ControlPlane:
		return pass("node %s is not of the control plane", c.Target.Name)
	}
	all, healthy := 0, 0
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if !n.ControlPlane {
			continue
		}
		if !c.is(n) && (n.Fence.slot() || n.Fence == FenceBooting) {
			return hold(ReasonQuorum, "%s of the control plane is being fenced already", n.Name)
		}
		if n.Gone {
			continue
		}
		all++
		if !c.is(n) && !n.Deleting && !n.unhealthy(c.Limits.LeaseSilence) {
			healthy++
		}
	}
	majority := all/2 + 1
	if healthy < majority {
		return hold(ReasonQuorum, "of %s of the control plane %d would be left healthy without %s, and %d have to",
			number(all, "node", "nodes"), healthy, c.Target.Name, majority)
	}
	return pass(
		"of %s of the control plane %d are left healthy without %s, and %d have to",
		number(all, "node", "nodes"),
		healthy,
		c.Target.Name,
		majority,
	)
}

func renewed(silent time.Duration) string {
	if silent < 0 {
		return "has not been seen to be renewed"
	}
	return fmt.Sprintf("was last renewed %v ago", span(silent))
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// because appends a reason, if it is known.
func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + oneLine(why)
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
