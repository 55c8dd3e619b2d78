package endpoints

import (
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// expiry is what an instance knows from the rounds before. It compares no times but readings of the own clock.
type expiry struct {
	interval time.Duration // the longest that is expected between two heartbeats

	last   clock.Reading // when the last complete round read the store
	canJudge bool          // this instance was able to do at its end what it expects of others

	incarnation string
	registered      bool          // own entries stood in the store when it was last seen, and were not removed by this instance
	since       clock.Reading // when that incarnation of the store was first seen, or an own entry was found missing, or all time began anew
	known       map[Endpoint]bool
	observations   map[string]observation
}

// observation is since when an entry has been seen unchanged, and how long it was before the last changes.
type observation struct {
	mark    string
	created time.Time
	since   clock.Reading
	gaps    [4]time.Duration
}

// next is the observation of an entry that has changed.
func (s observation) next(e entry, now clock.Reading, longest time.Duration) observation {
	gap := min(now.SinceAtLeast(s.since), longest)
	if s.mark == "" || !s.created.Equal(e.created) { // another process: nobody knows its pace
		return observation{e.mark, e.created, now, [...]time.Duration{longest, longest, longest, longest}}
	}
	return observation{e.mark, e.created, now, [...]time.Duration{s.gaps[1], s.gaps[2], s.gaps[3], gap}}
}

// minWait is how long the next change is waited for at least: an instance that has not learned of a shorter time yet is not dead.
func (s observation) minWait() time.Duration { return heartbeats * slices.Max(s.gaps[:]) }

// startRound begins a round whose read of the store has arrived now. Who does not refresh an entry, or has not been able to for longer than away, cannot
// tell whether the others could: for them all the time begins anew, also that to come back in after the store was lost.
func (x *expiry) startRound(now clock.Reading, away time.Duration) {
	if !x.canJudge || now.SinceAtLeast(x.last) > away {
		x.observations, x.since = map[string]observation{}, now
	}
}

// finishRound ends a round whose read of the store had arrived at that time.
func (x *expiry) finishRound(at clock.Reading, canJudge bool) {
	x.last, x.canJudge = at, canJudge
}

// observe takes in what the store held when an answer has arrived now.
func (x *expiry) observe(s snapshot, own []string, now clock.Reading) {
	registered := slices.ContainsFunc(own, func(key string) bool { _, exists := s.entries[key]; return exists })
	if x.known == nil || s.incarnation != x.incarnation || x.registered && !registered {
		x.incarnation, x.since, x.known = s.incarnation, now, map[Endpoint]bool{}
	}
	x.registered = registered
	seen := make(map[string]observation, len(s.entries))
	for key, e := range s.entries {
		if before, exists := x.observations[key]; exists && before.mark == e.mark {
			seen[key] = before
		} else {
			seen[key] = before.next(e, now, x.interval)
		}
		for _, endpoint := range e.endpoints {
			x.known[endpoint] = true
		}
	}
	x.observations = seen
}

// age is for how long an entry has been seen unchanged.
func (x *expiry) age(key string, now clock.Reading) time.Duration {
	s, exists := x.observations[key]
	if !exists {
		return 0
	}
	return now.SinceAtLeast(s.since)
}

// expired returns the entries that have been seen unchanged for at least expireAfter, sorted. Malformed ones do not expire: who
// knows what they are.
func (x *expiry) expired(s snapshot, expireAfter time.Duration, now clock.Reading) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		if s.entries[key].problem == nil && x.age(key, now) >= max(expireAfter, x.observations[key].minWait()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// wanted returns what should be published, sorted: what the store holds, and of what is published already, that whose entry has not been
// missed for long in a store which may have been lost. ok is false if nothing may be changed.
func (x *expiry) wanted(s snapshot, published []Endpoint, own []Endpoint, leaving bool, expireAfter time.Duration, now clock.Reading) (all []Endpoint, ok bool) {
	set := map[Endpoint]bool{}
	for _, e := range s.entries {
		for _, endpoint := range e.endpoints {
			set[endpoint] = true
		}
	}
	if now.SinceAtLeast(x.since) < max(expireAfter, heartbeats*x.interval) {
		for _, endpoint := range published {
			// If its entry was here once, somebody has removed it on purpose.
			if !x.known[endpoint] && !endpoint.among(own) {
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
func (x *expiry) forget(s snapshot, published []Endpoint) {
	keep := map[Endpoint]bool{}
	for _, e := range s.entries {
		for _, endpoint := range e.endpoints {
			keep[endpoint] = true
		}
	}
	for _, endpoint := range published {
		keep[endpoint] = true
	}
	maps.DeleteFunc(x.known, func(e Endpoint, _ bool) bool { return !keep[e] })
}
