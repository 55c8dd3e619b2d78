package endpoints

import (
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// expiry decides when an instance expires, from what this process saw in earlier rounds. It
// compares readings of this process's monotonic clock, never times of others.
type expiry struct {
	interval time.Duration // longest expected time between two heartbeats

	last     clock.Reading // when the last complete round read the store
	canJudge bool          // this instance refreshed its entry in that round

	incarnation string
	registered  bool // our entries were in the store, and we did not remove them
	// the wait began: a new incarnation of the store, a lost entry of ours, or a restart of all
	// waiting
	since        clock.Reading
	known        map[Endpoint]bool
	observations map[string]observation
}

// observation is how long an entry has been unchanged, and how long it took to change before.
type observation struct {
	mark    string
	created time.Time
	since   clock.Reading
	gaps    [4]time.Duration
	deleted bool
	// refreshed reports whether it was refreshed after it was deleted, which means that its instance lives.
	refreshed bool
}

// next returns the observation of an entry that has changed.
func (s observation) next(e entry, now clock.Reading, longest time.Duration) observation {
	next := observation{
		mark: e.mark, created: e.created, since: now, deleted: e.deleted, refreshed: e.deleted && s.deleted,
		gaps: [...]time.Duration{s.gaps[1], s.gaps[2], s.gaps[3], min(now.SinceAtLeast(s.since), longest)},
	}
	if s.mark == "" || !s.created.Equal(e.created) { // another process, at an unknown pace
		next.gaps = [...]time.Duration{longest, longest, longest, longest}
	}
	return next
}

// minWait bounds from below how long to wait for the next change, because the instance may not have
// read yet that the expiry has become shorter.
func (s observation) minWait() time.Duration { return heartbeats * slices.Max(s.gaps[:]) }

// startRound begins a round that has read the store now. It restarts all waiting if this instance
// did not refresh its entry in the last round, or if that round is longer than away ago, because
// the others may not have been able to refresh theirs either. That also restarts the time to
// register again after a loss of the store.
func (x *expiry) startRound(now clock.Reading, away time.Duration) {
	if !x.canJudge || now.SinceAtLeast(x.last) > away {
		x.observations, x.since = map[string]observation{}, now
	}
}

// finishRound ends a round that read the store at the given time.
func (x *expiry) finishRound(at clock.Reading, canJudge bool) {
	x.last, x.canJudge = at, canJudge
}

// observe records the content of the store, as of now.
func (x *expiry) observe(s snapshot, own []string, now clock.Reading) {
	registered := slices.ContainsFunc(own, func(key string) bool { _, exists := s.entries[key]; return exists })
	if x.known == nil || s.incarnation != x.incarnation || x.registered && !registered {
		x.incarnation, x.since, x.known = s.incarnation, now, map[Endpoint]bool{}
	}
	x.registered = registered
	seen := make(map[string]observation, len(s.entries))
	for key, e := range s.entries {
		if before, exists := x.observations[key]; exists && before.mark == e.mark {
			before.deleted = e.deleted
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

// living returns s without entries that were deleted and that a finalizer keeps. Otherwise a dead instance
// would come back each time after it was removed. Such an entry counts while its endpoints are published,
// until it expires, and again if its instance refreshes it.
func (x *expiry) living(s snapshot, published []Endpoint) snapshot {
	gone := func(key string, e entry) bool {
		return e.deleted && !x.observations[key].refreshed &&
			!slices.ContainsFunc(e.endpoints, func(p Endpoint) bool { return slices.Contains(published, p) })
	}
	s.entries = maps.Clone(s.entries)
	maps.DeleteFunc(s.entries, gone)
	return s
}

// age returns how long an entry has been unchanged.
func (x *expiry) age(key string, now clock.Reading) time.Duration {
	s, exists := x.observations[key]
	if !exists {
		return 0
	}
	return now.SinceAtLeast(s.since)
}

// expired returns the entries that have been unchanged for at least expireAfter, sorted. Malformed
// entries do not expire, because it is unknown what they are.
func (x *expiry) expired(s snapshot, expireAfter time.Duration, now clock.Reading) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		if s.entries[key].problem == nil && x.age(key, now) >= max(expireAfter, x.observations[key].minWait()) {
			keys = append(keys, key)
		}
	}
	return keys
}

// wanted returns the endpoints to publish, sorted: those in the store, and published ones whose
// entry may be missing because the store was lost a short time ago. ok is false if nothing may be
// changed.
func (x *expiry) wanted(s snapshot, published []Endpoint, own []Endpoint, leaving bool, expireAfter time.Duration,
	now clock.Reading,
) (all []Endpoint, ok bool) {
	set := map[Endpoint]bool{}
	for _, e := range s.entries {
		for _, endpoint := range e.endpoints {
			set[endpoint] = true
		}
	}
	if now.SinceAtLeast(x.since) < max(expireAfter, heartbeats*x.interval) {
		for _, endpoint := range published {
			// A known entry that is gone was removed on purpose.
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

// forget drops endpoints that are neither in the store nor published.
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
