package policy

import (
	"maps"
	"slices"
	"time"
)

// State has what decisions need from the past. It is a value: [State.Observe] returns the next one.
// The zero value is that of a new process, which allows nothing before it has observed for
// [Limits].Observation. Do not keep a State over a restart.
type State struct {
	began, last time.Time
	settled     bool                // Observation is over
	clear       map[scope]time.Time // when the last storm of a scope ended; zero while it lasts
	starts      []remembered
}

type remembered struct {
	Start
	seen time.Time
}

// Observe returns the state after a view. Call it after each change, and several times within
// [Limits].LeaseSilence, because a storm that was not observed has no cool-down. After a longer
// pause the observation starts again.
func (s State) Observe(v View, limits Limits) State {
	limits = usable(limits)
	s.clear = maps.Clone(s.clear)
	s.starts = merge(s.starts, v, limits)
	if s.began.IsZero() || v.Now.Sub(s.last) > limits.LeaseSilence {
		s.began, s.settled = v.Now, false
	}
	if s.last.Before(v.Now) {
		s.last = v.Now
	}
	c := count(v.Nodes, limits.LeaseSilence)
	if !s.settled {
		// No renewals of Leases were seen yet, so every node looks unhealthy, which is no storm.
		if v.Now.Sub(s.began) < limits.Observation {
			return s
		}
		s.settled = true
		if c.all.unhealthy >= 2 {
			s.storm(wholeCluster) // it may just have ended
		}
	}
	storms := c.storms(limits.StormPercent)
	for scope, since := range s.clear {
		switch {
		case storms[scope]:
		case since.IsZero():
			s.clear[scope] = v.Now
		case v.Now.Sub(since) >= limits.CoolDown:
			delete(s.clear, scope)
		}
	}
	for scope := range storms {
		s.storm(scope)
	}
	return s
}

func (s *State) storm(where scope) {
	if s.clear == nil {
		s.clear = map[scope]time.Time{}
	}
	s.clear[where] = time.Time{}
}

// coolDown returns the rest of the cool-down of a scope.
func (s State) coolDown(scope scope, now time.Time, full time.Duration) time.Duration {
	since, stormed := s.clear[scope]
	switch {
	case !stormed:
		return 0
	case since.IsZero():
		return full
	}
	return min(max(full-now.Sub(since), 0), full)
}

// unobserved returns the rest of the observation.
func (s State) unobserved(now time.Time, full time.Duration) time.Duration {
	if s.settled {
		return 0
	}
	return min(max(full-now.Sub(s.began), 1), full)
}

// merge returns the starts that still count. A start may be in many views, and stays when its
// record is gone. A start whose record outlives the window also stays, because it would look new
// otherwise.
func merge(known []remembered, v View, limits Limits) []remembered {
	all := slices.Clone(known)
	for _, start := range v.Starts {
		if !slices.ContainsFunc(all, func(r remembered) bool { return r.same(start) }) {
			all = append(all, remembered{start, v.Now})
		}
	}
	window := max(limits.StartWindow, limits.RepeatWindow)
	return slices.DeleteFunc(all, func(r remembered) bool {
		return r.age(v.Now) >= window && !slices.ContainsFunc(v.Starts, r.same)
	})
}

func (r remembered) same(s Start) bool {
	return r.Node == s.Node && r.At.Equal(s.At)
}

// age is measured from when the start was first seen if its timestamp is later, because another
// clock may be years ahead.
func (r remembered) age(now time.Time) time.Duration {
	at := r.At
	if r.seen.Before(at) {
		at = r.seen
	}
	return max(now.Sub(at), 0)
}

// within returns the ages of the starts within a window, the youngest first. With a node, only
// those of the node.
func (s State) within(now time.Time, window time.Duration, node string) []time.Duration {
	var ages []time.Duration
	for _, r := range s.starts {
		if age := r.age(now); age < window && (node == "" || r.Node == node) {
			ages = append(ages, age)
		}
	}
	slices.Sort(ages)
	return ages
}
