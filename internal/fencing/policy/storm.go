package policy

import "time"

// tally counts the members of a scope: the cluster, or a zone.
type tally struct{ members, unhealthy int64 }

func (t *tally) add(unhealthy bool) {
	t.members++
	if unhealthy {
		t.unhealthy++
	}
}

// storm reports whether so many members are unhealthy that a common cause is likely. One node alone
// is no storm. It divides nothing, so that nothing is rounded.
func (t tally) storm(percent int) bool {
	return t.unhealthy >= 2 && t.unhealthy*100 >= int64(percent)*t.members
}

type census struct {
	all   tally
	zones map[string]tally
}

func count(nodes []NodeFacts, silence time.Duration) census {
	c := census{zones: map[string]tally{}}
	for i := range nodes {
		n := &nodes[i]
		if !n.member() {
			continue
		}
		unhealthy := n.unhealthy(silence)
		c.all.add(unhealthy)
		zone := c.zones[n.Zone]
		zone.add(unhealthy)
		c.zones[n.Zone] = zone
	}
	return c
}

// zoned reports whether there is more than one zone.
func (c census) zoned() bool { return len(c.zones) > 1 }

// scope is the cluster, or one of its zones.
type scope struct {
	zoned bool
	zone  string
}

var wholeCluster = scope{}

func inZone(zone string) scope { return scope{zoned: true, zone: zone} }

func (s scope) String() string {
	switch {
	case !s.zoned:
		return "the cluster"
	case s.zone == "":
		return "the nodes without a zone"
	}
	return "zone " + s.zone
}

// storms returns the scopes that have a storm now.
func (c census) storms(percent int) map[scope]bool {
	storms := map[scope]bool{}
	if c.all.storm(percent) {
		storms[wholeCluster] = true
	}
	if c.zoned() {
		for zone, t := range c.zones {
			if t.storm(percent) {
				storms[inZone(zone)] = true
			}
		}
	}
	return storms
}

func askStorm(c *consideration) GateResult {
	if c.Target.Switched {
		return begun()
	}
	return c.askScope(wholeCluster, c.census.all, ReasonStorm)
}

func askZoneStorm(c *consideration) GateResult {
	switch {
	case c.Target.Switched:
		return begun()
	case c.node == nil:
		return noNode(ReasonZoneStorm)
	case !c.census.zoned():
		return pass("there are no zones to compare")
	}
	return c.askScope(inZone(c.node.Zone), c.census.zones[c.node.Zone], ReasonZoneStorm)
}

func (c *consideration) askScope(s scope, t tally, reason string) GateResult {
	limit := max(2, (int64(c.Limits.StormPercent)*t.members+99)/100) // for the message
	if c.storms[s] {
		return hold(reason, "in %v %d of %d nodes are unhealthy; from %d on (%d %%) it is not they who have failed",
			s, t.unhealthy, t.members, limit, c.Limits.StormPercent)
	}
	return pass("in %v %d of %d nodes are unhealthy; nothing is fenced from %d on (%d %%)",
		s, t.unhealthy, t.members, limit, c.Limits.StormPercent)
}

func askCoolDown(c *consideration) GateResult {
	if c.Target.Switched {
		return begun()
	}
	scopes := []scope{wholeCluster}
	if c.node != nil {
		scopes = append(scopes, inZone(c.node.Zone))
	}
	var longest time.Duration
	var where scope
	for _, s := range scopes {
		if left := c.State.coolDown(s, c.Now, c.Limits.CoolDown); left > longest {
			longest, where = left, s
		}
	}
	if longest > 0 {
		return wait(ReasonCoolDown, longest, "%v was in a storm, or may have been, until %v ago; that has to be over "+
			"for %v",
			where, span(c.Limits.CoolDown-longest), c.Limits.CoolDown)
	}
	return pass("no storm within %v", c.Limits.CoolDown)
}
