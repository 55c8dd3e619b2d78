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

// storm says whether so many are unhealthy that it is not they who have failed. One node alone is none, however few there are. Nothing is
// divided, so nothing is rounded.
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

// zoned says whether zones tell more than the cluster does.
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

// storms are the scopes in which there is one now.
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
