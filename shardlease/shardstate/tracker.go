package shardstate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Reading is a reading of the clocks of this process: [Clock].Now.
type Reading = clock.Reading

// Selector selects the leases of a ring.
func Selector(ring string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{shardlease.RingLabel: ring})
}

// Config of a [Tracker]. All sharders of a ring should use the same.
type Config struct {
	// Namespace and Ring of the leases. Required.
	Namespace, Ring string
	// LeaseDuration applies where no lease names its duration. It must be at least that of the
	// shards. Default: 15 s.
	LeaseDuration time.Duration
	// GCPeriod is how long the lease of a dead shard is kept. Default: 1 h.
	GCPeriod time.Duration
}

// Tracker holds the state of the shards of a ring as one process observes it. It is fed with the
// results of lists, watches and reads of their leases, each with the local time of its arrival. It
// sends no request and never compares clocks of two machines. Before the first List it has no
// shard.
//
// A Tracker is not safe for concurrent use. Leases that are passed to it must not be changed
// afterwards.
type Tracker struct {
	config Config
	shards map[string]*observation
}

// NewTracker returns a tracker that has observed nothing. The error joins one error for each rule
// that c breaks.
func NewTracker(c Config) (*Tracker, error) {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = lease.DefaultDuration
	}
	if c.GCPeriod == 0 {
		c.GCPeriod = time.Hour
	}
	review := kube.Review{Package: "shardstate"}
	review.Value("Namespace", c.Namespace, kube.NamespaceProblems(c.Namespace))
	review.Value("Ring", c.Ring, validation.IsDNS1123Label(c.Ring))
	if c.LeaseDuration < minLeaseDuration || c.LeaseDuration > shardlease.MaxLeaseDuration ||
		c.LeaseDuration%time.Second != 0 {
		review.Add(fmt.Errorf("LeaseDuration: must be whole seconds, from %v to %v (got %v)",
			minLeaseDuration, shardlease.MaxLeaseDuration, c.LeaseDuration))
	}
	review.Duration("GCPeriod", c.GCPeriod)
	if err := review.Err(); err != nil {
		return nil, err
	}
	return &Tracker{config: c, shards: map[string]*observation{}}, nil
}

// List takes in a consistent list of the ring's leases (resourceVersion "", all pages). A shard
// that is not in it has no lease. List returns, sorted, the shards with a change on which an
// EpochState depends, so that you can check their objects.
func (r *Tracker) List(leases []*coordinationv1.Lease, now Reading) (changed []string) {
	listed := map[string]bool{}
	for _, l := range leases {
		listed[l.Name] = true
		if r.Observe(l, now) {
			changed = append(changed, l.Name)
		}
	}
	for shard := range r.shards {
		if !listed[shard] && r.ObserveAbsence(shard, now) {
			changed = append(changed, shard)
		}
	}
	slices.Sort(changed)
	return changed
}

// Observe takes in a version from a watch (ADDED, MODIFIED), or the answer to a write. It reports
// whether something changed on which an EpochState depends. Leases of other rings are ignored.
func (r *Tracker) Observe(l *coordinationv1.Lease, now Reading) (changed bool) {
	if r.shards[l.Name] == nil && l.Labels[shardlease.RingLabel] != r.config.Ring {
		return false // fake clientsets do not select
	}
	return r.shard(l.Name, now).observe(l, now)
}

// ObserveAbsence takes in the DELETED event of a shard's lease. A watch with [Selector] sends it
// even when only the label was removed.
func (r *Tracker) ObserveAbsence(shard string, now Reading) (changed bool) {
	s := r.shards[shard]
	if s == nil {
		return false
	}
	changed = s.observe(nil, now)
	if wait, _ := s.next(now, 0); wait == 0 && s.state(now) == Gone && s.age(now) > r.config.GCPeriod {
		delete(r.shards, shard) // all of it can be read again
	}
	return changed
}

// ObserveRead takes in the result of a consistent read of a shard's lease, as EpochUnknown
// requires. The read must have been sent after an object was read whose record names e. l is nil
// only if the API server has stated that the Lease does not exist, in a Status whose details name
// it. Any other 404 proves nothing.
func (r *Tracker) ObserveRead(shard string, e shardlease.Epoch, l *coordinationv1.Lease, now Reading) (changed bool) {
	s := r.shard(shard, now)
	changed = s.observe(l, now)
	s.observeAbsence(e.LeaseUID, now)
	return changed
}

func (r *Tracker) shard(name string, now Reading) *observation {
	s := r.shards[name]
	if s == nil {
		s = newObservation(name, r.config.Ring, r.config.LeaseDuration, now)
		r.shards[name] = s
	}
	return s
}

// Shards returns the names of all shards that are not [Gone], sorted.
func (r *Tracker) Shards(now Reading) []string {
	return r.named(func(shard string) bool { return r.State(shard, now) != Gone })
}

// Members returns the names of the shards that take part in the ring, sorted.
func (r *Tracker) Members(now Reading) []string {
	return r.named(func(shard string) bool { return r.State(shard, now).Member() })
}

func (r *Tracker) named(ok func(shard string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.shards)), func(shard string) bool { return !ok(shard) })
}

// Lease returns the last seen version of a shard's lease, which must not be changed, or nil if it
// does not exist.
func (r *Tracker) Lease(shard string) *coordinationv1.Lease {
	if s := r.shards[shard]; s != nil {
		return s.lease
	}
	return nil
}

// State returns the state of a shard.
func (r *Tracker) State(shard string, now Reading) State {
	s := r.shards[shard]
	if s == nil {
		return Gone
	}
	state := s.state(now)
	if state == Dead && s.age(now) >= r.config.GCPeriod {
		return Orphaned
	}
	return state
}

// Renewing reports whether a shard is Away, or is Ready and its lease has changed within two thirds
// of D, because a shard renews more often.
func (r *Tracker) Renewing(shard string, now Reading) bool {
	s := r.shards[shard]
	if s == nil {
		return false
	}
	state := s.state(now)
	return state == Away || state == Ready && s.age(now) < s.patience*2/3
}

// Problem returns why a shard's lease is [Malformed], or nil.
func (r *Tracker) Problem(shard string) error {
	s := r.shards[shard]
	if s == nil {
		return nil
	}
	if err := s.problem(); err != nil {
		return fmt.Errorf("lease %s/%s: %w", r.config.Namespace, shard, err)
	}
	return nil
}

// Epoch returns the epoch in which objects can be assigned to a shard: that of a member that was
// observed to hold its lease, even if the lease has expired.
func (r *Tracker) Epoch(shard string, now Reading) (e shardlease.Epoch, ok bool) {
	s := r.shards[shard]
	if s == nil || s.lease == nil || !s.state(now).Member() || s.abandoned() {
		return shardlease.Epoch{}, false
	}
	e, err := shardlease.EpochOf(s.lease)
	return e, err == nil
}

// EpochState returns the state of the epoch e of a shard. Act without the shard only after
// [EpochEnded].
func (r *Tracker) EpochState(shard string, e shardlease.Epoch, now Reading) EpochState {
	s := r.shards[shard]
	if s == nil {
		return EpochUnknown
	}
	return s.epochState(e, now)
}

// Next returns the time until a State or an EpochState changes without a change of a lease. ok is
// false if none does.
func (r *Tracker) Next(now Reading) (wait time.Duration, ok bool) {
	for _, s := range r.shards {
		if next, _ := s.next(now, r.config.GCPeriod); next > 0 && (!ok || next < wait) {
			wait, ok = next, true
		}
	}
	return wait, ok
}

// Passed returns how often the State or an EpochState of each shard has changed since its lease
// did. If the result differs after the wait of [Tracker.Next], something has changed because a
// lease was not renewed.
func (r *Tracker) Passed(now Reading) map[string]int {
	all := map[string]int{}
	for shard, s := range r.shards {
		if _, passed := s.next(now, r.config.GCPeriod); passed > 0 {
			all[shard] = passed
		}
	}
	return all
}
