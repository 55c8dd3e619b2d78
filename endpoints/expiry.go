package endpoints

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// expiry decides when an instance expires, from what this process saw in earlier rounds. It
// compares readings of this process's monotonic clock, never times of others.
type expiry struct {
	keys        []string      // of this instance's entries
	endpoints   []Endpoint    // of this instance
	maxInterval time.Duration // as configured: the longest expected time between two heartbeats
	interval    time.Duration // of the present round; as configured before the first one
	expireAfter time.Duration // as configured, or set at run time

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

// settingsKey is the key of the run-time setting.
const settingsKey = "expire-duration"

// parseSetting reads the run-time setting.
func parseSetting(data map[string]string) (time.Duration, error) {
	text, exists := data[settingsKey]
	if !exists {
		return 0, errors.New("it has no key " + settingsKey)
	}
	d, err := time.ParseDuration(text)
	switch least := heartbeats * minInterval; { // so an instance has three heartbeats before it expires
	case err != nil:
		return 0, fmt.Errorf("%s: must be a duration such as 1m (got %q)", settingsKey, text)
	case d < least:
		return 0, fmt.Errorf("%s: must be at least %v (got %q)", settingsKey, least, text)
	}
	return d, nil
}

// maxGrowth bounds how much longer an interval may be than the one before. Others expect the next
// heartbeat within three of the previous intervals, whichever run-time setting they have read.
const maxGrowth = 1.5

// pace sets the interval of a round to a third of expireAfter, but at most to the configured one.
func (x *expiry) pace() {
	x.interval = min(x.maxInterval, x.expireAfter/heartbeats, time.Duration(float64(x.interval)*maxGrowth))
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
func (o observation) next(e entry, now clock.Reading, longest time.Duration) observation {
	next := observation{
		mark: e.mark, created: e.created, since: now, deleted: e.deleted, refreshed: e.deleted && o.deleted,
		gaps: [...]time.Duration{o.gaps[1], o.gaps[2], o.gaps[3], min(now.SinceAtLeast(o.since), longest)},
	}
	if o.mark == "" || !o.created.Equal(e.created) { // another process, at an unknown pace
		next.gaps = [...]time.Duration{longest, longest, longest, longest}
	}
	return next
}

// minWait bounds from below how long to wait for the next change, because the instance may not have
// read yet that the expiry has become shorter.
func (o observation) minWait() time.Duration { return heartbeats * slices.Max(o.gaps[:]) }

// view is what one round knows. It begins with begin, and every write of the round continues it with update, so all
// decisions are about what was observed.
type view struct {
	expiry    *expiry
	leaving   bool
	arrived   clock.Reading // when the store was read
	published []Endpoint    // before that
	store     snapshot      // as read, or as this round's last write left it
}

// begin begins a round that has read the store now. It restarts all waiting if this instance did not
// refresh its entry in the last round, or if that round is longer than two intervals ago, because the
// others may not have been able to refresh theirs either. That also restarts the time to register
// again after a loss of the store.
func (x *expiry) begin(s snapshot, published []Endpoint, leaving bool, now clock.Reading) *view {
	if !x.canJudge || now.SinceAtLeast(x.last) > 2*x.interval {
		x.observations, x.since = map[string]observation{}, now
	}
	v := &view{expiry: x, leaving: leaving, arrived: now, published: published}
	v.update(s, now)
	return v
}

// update observes the content of the store, as of now.
func (v *view) update(s snapshot, now clock.Reading) {
	x := v.expiry
	registered, _ := s.holds(x.keys)
	if x.known == nil || s.incarnation != x.incarnation || x.registered && !registered {
		x.incarnation, x.since, x.known = s.incarnation, now, map[Endpoint]bool{}
	}
	x.registered = registered && !v.leaving // or the removal would be taken for a loss of the store
	seen := make(map[string]observation, len(s.entries))
	for key, e := range s.entries {
		if before, exists := x.observations[key]; exists && before.mark == e.mark {
			before.deleted = e.deleted
			seen[key] = before
		} else {
			seen[key] = before.next(e, now, x.maxInterval)
		}
		for _, endpoint := range e.endpoints {
			x.known[endpoint] = true
		}
	}
	v.store, x.observations = s, seen
}

// finish ends a complete round. The next one continues the waiting, unless this one did not refresh our entry.
func (v *view) finish() { v.expiry.last, v.expiry.canJudge = v.arrived, !v.leaving }

// missing reports whether an entry of this instance is missing.
func (v *view) missing() bool {
	_, all := v.store.holds(v.expiry.keys)
	return !all
}

// living returns the entries without those that were deleted and that a finalizer keeps. Otherwise a dead
// instance would come back each time after it was removed. Such an entry counts while its endpoints are
// published, until it expires, and again if its instance refreshes it.
func (v *view) living() map[string]entry {
	entries := maps.Clone(v.store.entries)
	maps.DeleteFunc(entries, func(key string, e entry) bool {
		return e.deleted && !v.expiry.observations[key].refreshed &&
			!slices.ContainsFunc(e.endpoints, func(p Endpoint) bool { return slices.Contains(v.published, p) })
	})
	return entries
}

// status returns the state of an entry, as of now.
func (v *view) status(key string, e entry, now clock.Reading) Status {
	s := Status{Key: key, Own: slices.Contains(v.expiry.keys, key), Endpoints: e.endpoints, Problem: e.problem}
	if o, exists := v.expiry.observations[key]; exists {
		s.Unchanged = now.SinceAtLeast(o.since)
	}
	return s
}

// expired returns the entries that had been unchanged for at least expireAfter when the store was read,
// sorted. It does not count the time since then, because this process may have been stopped, and the
// others with it. Malformed entries do not expire, because it is unknown what they are.
func (v *view) expired() []string {
	var keys []string
	for key, e := range v.living() {
		wait := max(v.expiry.expireAfter, v.expiry.observations[key].minWait())
		if e.problem == nil && v.status(key, e, v.arrived).Unchanged >= wait {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// wanted returns the endpoints to publish, sorted: those in the store, and published ones whose
// entry may be missing because the store was lost a short time ago. ok is false if nothing may be
// changed. It forgets endpoints that are neither in the store nor published.
func (v *view) wanted() (all []Endpoint, ok bool) {
	x := v.expiry
	set := map[Endpoint]bool{}
	for _, e := range v.living() {
		for _, endpoint := range e.endpoints {
			set[endpoint] = true
		}
	}
	registering := v.arrived.SinceAtLeast(x.since) < max(x.expireAfter, heartbeats*x.maxInterval)
	keep := maps.Clone(set)
	for _, endpoint := range v.published {
		keep[endpoint] = true
		// A known entry that is gone was removed on purpose.
		if registering && !x.known[endpoint] && !endpoint.among(x.endpoints) {
			set[endpoint] = true
		}
	}
	maps.DeleteFunc(x.known, func(e Endpoint, _ bool) bool { return !keep[e] })
	if len(set) == 0 && !v.leaving {
		return nil, false
	}
	return slices.SortedFunc(maps.Keys(set), Endpoint.compare), true
}
