package shardlease

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Reading is one look at the clocks of this process: [Clock].Now.
type Reading = clock.Reading

// Selector selects the leases of a ring.
func Selector(ring string) labels.Selector {
	return labels.SelectorFromSet(labels.Set{RingLabel: ring})
}

// RosterConfig of a [Roster]. All sharders of a ring should have the same.
type RosterConfig struct {
	// Namespace of the leases, and Ring that they belong to. Required.
	Namespace, Ring string
	// LeaseDuration is what is waited for where no lease says how long: at least what the shards have. Default: 15 s.
	LeaseDuration time.Duration
	// GCPeriod is for how long a dead shard's lease stays. Default: 1 h.
	GCPeriod time.Duration
}

// Roster is what one sharder knows about the shards of a ring. It is fed with what lists, watches and reads of their leases
// return, each with the local time at which that arrived, and answers from that alone: it sends no request, and compares no
// clock with another. Nothing is known of any shard before the first List.
//
// A Roster is not for concurrent use. Leases that it is given must not be changed afterwards.
type Roster struct {
	config RosterConfig
	shards map[string]*sighting
}

// NewRoster returns a roster that has seen nothing. The error joins one error for every rule that c breaks.
func NewRoster(c RosterConfig) (*Roster, error) {
	if c.LeaseDuration == 0 {
		c.LeaseDuration = lease.DefaultDuration
	}
	if c.GCPeriod == 0 {
		c.GCPeriod = time.Hour
	}
	review := lease.Review{Package: "shardlease"}
	review.Value("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
	review.Value("Ring", c.Ring, validation.IsDNS1123Label(c.Ring))
	if c.LeaseDuration < minLeaseDuration || c.LeaseDuration > MaxLeaseDuration || c.LeaseDuration%time.Second != 0 {
		review.Add(fmt.Errorf("LeaseDuration: must be whole seconds, from %v to %v (got %v)",
			minLeaseDuration, MaxLeaseDuration, c.LeaseDuration))
	}
	review.NotNegative("GCPeriod", c.GCPeriod)
	if err := review.Err(); err != nil {
		return nil, err
	}
	return &Roster{config: c, shards: map[string]*sighting{}}, nil
}

// List takes in a consistent list of the ring's leases (resourceVersion "", all pages): a shard that is not in it has no lease. It
// returns, sorted, the shards of which something has changed that verdicts depend on: their objects have to be looked at.
func (r *Roster) List(leases []*coordinationv1.Lease, now Reading) (changed []string) {
	listed := map[string]bool{}
	for _, l := range leases {
		listed[l.Name] = true
		if r.See(l, now) {
			changed = append(changed, l.Name)
		}
	}
	for shard := range r.shards {
		if !listed[shard] && r.Miss(shard, now) {
			changed = append(changed, shard)
		}
	}
	slices.Sort(changed)
	return changed
}

// See takes in a version from a watch (ADDED, MODIFIED), or the answer to a write. It reports whether something has changed that verdicts
// depend on. Leases of others are ignored.
func (r *Roster) See(l *coordinationv1.Lease, now Reading) (changed bool) {
	if r.shards[l.Name] == nil && l.Labels[RingLabel] != r.config.Ring {
		return false // fake clientsets do not select
	}
	return r.shard(l.Name, now).see(l, now)
}

// Miss takes in the DELETED event of a shard's lease, which a watch with [Selector] also tells when only the label was removed.
func (r *Roster) Miss(shard string, now Reading) (changed bool) {
	s := r.shards[shard]
	if s == nil {
		return false
	}
	changed = s.see(nil, now)
	if wait, _ := s.next(now, 0); wait == 0 && s.state(now) == Gone && s.age(now) > r.config.GCPeriod {
		delete(r.shards, shard) // what it knew can be read again
	}
	return changed
}

// Read takes in what a consistent read of a shard's lease returned that was sent after an object was read
// whose record names e: the answer to [Unread]. l is nil only if the API server says that there is no
// such Lease, in a Status whose details name it: any other answer with 404 says nothing.
func (r *Roster) Read(shard string, e Epoch, l *coordinationv1.Lease, now Reading) (changed bool) {
	s := r.shard(shard, now)
	changed = s.see(l, now)
	s.miss(e.LeaseUID, now)
	return changed
}

func (r *Roster) shard(name string, now Reading) *sighting {
	s := r.shards[name]
	if s == nil {
		s = newSighting(name, r.config.Ring, r.config.LeaseDuration, now)
		r.shards[name] = s
	}
	return s
}

// Shards returns the names of all shards that are not [Gone], sorted.
func (r *Roster) Shards(now Reading) []string {
	return r.named(func(shard string) bool { return r.State(shard, now) != Gone })
}

// Members returns the names of the shards that take part in the ring, sorted.
func (r *Roster) Members(now Reading) []string {
	return r.named(func(shard string) bool { return r.State(shard, now).Member() })
}

func (r *Roster) named(ok func(shard string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.shards)), func(shard string) bool { return !ok(shard) })
}

// State of a shard.
func (r *Roster) State(shard string, now Reading) State {
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

// Problem says why a shard's lease is [Malformed]; nil if it is not.
func (r *Roster) Problem(shard string) error {
	s := r.shards[shard]
	if s == nil {
		return nil
	}
	if err := s.problem(); err != nil {
		return fmt.Errorf("lease %s/%s: %w", r.config.Namespace, shard, err)
	}
	return nil
}

// Epoch is that of a shard to which objects can be assigned: a member that was seen to hold its lease, though that may have expired.
func (r *Roster) Epoch(shard string, now Reading) (e Epoch, ok bool) {
	s := r.shards[shard]
	if s == nil || s.lease == nil || !s.state(now).Member() || s.abandoned() {
		return Epoch{}, false
	}
	e, err := EpochOf(s.lease)
	return e, err == nil
}

// Verdict on the epoch e of a shard. Only [Over] allows to act without that shard.
func (r *Roster) Verdict(shard string, e Epoch, now Reading) Verdict {
	s := r.shards[shard]
	if s == nil {
		return Unread
	}
	return s.verdict(e, now)
}

// Next is after how long the state of a shard, or a verdict, changes unless its lease does; ok is false if that never happens.
func (r *Roster) Next(now Reading) (wait time.Duration, ok bool) {
	for _, s := range r.shards {
		if next, _ := s.next(now, r.config.GCPeriod); next > 0 && (!ok || next < wait) {
			wait, ok = next, true
		}
	}
	return wait, ok
}

// Passed is how often the state of each shard, or a verdict, has changed since its lease did: it
// differs from before if, at the end of what [Roster.Next] said, something has really changed,
// because the lease was not renewed meanwhile.
func (r *Roster) Passed(now Reading) map[string]int {
	all := map[string]int{}
	for shard, s := range r.shards {
		if _, passed := s.next(now, r.config.GCPeriod); passed > 0 {
			all[shard] = passed
		}
	}
	return all
}
