package endpoints

import (
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// memory is what an instance knows from the rounds before. It compares no times but readings of the own clock.
type memory struct {
	interval time.Duration // the longest that is expected between two heartbeats

	last   clock.Reading // when the last complete round read the store
	judges bool          // this instance was able to do at its end what it expects of others

	incarnation string
	inside      bool          // own entries stood in the store when it was last seen, and were not removed by this instance
	since       clock.Reading // when that incarnation of the store was first seen, or an own entry was found missing, or all time began anew
	known       map[Endpoint]bool
	sightings   map[string]sighting
}

// sighting is since when an entry has been seen unchanged, and how long it was before the last changes.
type sighting struct {
	mark    string
	created time.Time
	since   clock.Reading
	gaps    [4]time.Duration
}

// next is the sighting of an entry that has changed.
func (s sighting) next(e entry, now clock.Reading, longest time.Duration) sighting {
	gap := min(now.SinceAtLeast(s.since), longest)
	if s.mark == "" || !s.created.Equal(e.created) { // another process: nobody knows its pace
		return sighting{e.mark, e.created, now, [...]time.Duration{longest, longest, longest, longest}}
	}
	return sighting{e.mark, e.created, now, [...]time.Duration{s.gaps[1], s.gaps[2], s.gaps[3], gap}}
}

// patience is how long the next change is waited for at least: an instance that has not learned of a shorter time yet is not dead.
func (s sighting) patience() time.Duration { return heartbeats * slices.Max(s.gaps[:]) }

// look begins a round whose read of the store has arrived now. Who does not refresh an entry, or has not been able to for longer than away, cannot
// tell whether the others could: for them all the time begins anew, also that to come back in after the store was lost.
func (m *memory) look(now clock.Reading, away time.Duration) {
	if !m.judges || now.SinceAtLeast(m.last) > away {
		m.sightings, m.since = map[string]sighting{}, now
	}
}

// complete ends a round whose read of the store had arrived at that time.
func (m *memory) complete(at clock.Reading, judges bool) {
	m.last, m.judges = at, judges
}

// see takes in what the store held when an answer has arrived now.
func (m *memory) see(s snapshot, own []string, now clock.Reading) {
	inside := slices.ContainsFunc(own, func(key string) bool { _, exists := s.entries[key]; return exists })
	if m.known == nil || s.incarnation != m.incarnation || m.inside && !inside {
		m.incarnation, m.since, m.known = s.incarnation, now, map[Endpoint]bool{}
	}
	m.inside = inside
	seen := make(map[string]sighting, len(s.entries))
	for key, e := range s.entries {
		if before, exists := m.sightings[key]; exists && before.mark == e.mark {
			seen[key] = before
		} else {
			seen[key] = before.next(e, now, m.interval)
		}
		for _, endpoint := range e.endpoints {
			m.known[endpoint] = true
		}
	}
	m.sightings = seen
}

// age is for how long an entry has been seen unchanged.
func (m *memory) age(key string, now clock.Reading) time.Duration {
	s, exists := m.sightings[key]
	if !exists {
		return 0
	}
	return now.SinceAtLeast(s.since)
}

// expired returns the entries that have been seen unchanged for at least expireAfter, sorted. Malformed ones do not expire: who
// knows what they are.
func (m *memory) expired(s snapshot, expireAfter time.Duration, now clock.Reading) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		if s.entries[key].problem == nil && m.age(key, now) >= max(expireAfter, m.sightings[key].patience()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// wanted returns what should be published, sorted: what the store holds, and of what is published already, that whose entry has not been
// missed for long in a store which may have been lost. ok is false if nothing may be changed.
func (m *memory) wanted(s snapshot, published []Endpoint, own []Endpoint, leaving bool, expireAfter time.Duration, now clock.Reading) (all []Endpoint, ok bool) {
	set := map[Endpoint]bool{}
	for _, e := range s.entries {
		for _, endpoint := range e.endpoints {
			set[endpoint] = true
		}
	}
	if now.SinceAtLeast(m.since) < max(expireAfter, heartbeats*m.interval) {
		for _, endpoint := range published {
			// If its entry was here once, somebody has removed it on purpose.
			if !m.known[endpoint] && !endpoint.among(own) {
				set[endpoint] = true
			}
		}
	}
	if len(set) == 0 && !leaving {
		return nil, false
	}
	return slices.SortedFunc(maps.Keys(set), Endpoint.compare), true
}

// forget drops what needs no memory: endpoints that are neither in the store nor published.
func (m *memory) forget(s snapshot, published []Endpoint) {
	keep := map[Endpoint]bool{}
	for _, e := range s.entries {
		for _, endpoint := range e.endpoints {
			keep[endpoint] = true
		}
	}
	for _, endpoint := range published {
		keep[endpoint] = true
	}
	maps.DeleteFunc(m.known, func(e Endpoint, _ bool) bool { return !keep[e] })
}
