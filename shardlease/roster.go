package shardlease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
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
	// CollectAfter is for how long a dead shard's lease stays. Default: 1 h.
	CollectAfter time.Duration
}

// Roster is what one sharder knows about the shards of a ring. It is fed with what lists, watches and reads of their leases
// return, each with the local time at which that arrived, and answers from that alone: it sends no request, and compares no
// clock with another. Nothing is known of any shard before the first List.
//
// A Roster is not for concurrent use. Leases that it is given must not be changed afterwards.
type Roster struct {
	config RosterConfig
}

// NewRoster returns a roster that has seen nothing.
func NewRoster(c RosterConfig) (*Roster, error) { return &Roster{config: c}, nil }

// List takes in a consistent list of the ring's leases (resourceVersion "", all pages): a shard that is not in it has no lease. It
// returns the shards of which something has changed that verdicts depend on: their objects have to be looked at.
func (r *Roster) List(leases []*coordinationv1.Lease, now Reading) (changed []string) { return nil }

// See takes in a version from a watch (ADDED, MODIFIED), or the answer to a write. It reports whether something has changed that verdicts
// depend on.
func (r *Roster) See(l *coordinationv1.Lease, now Reading) (changed bool) { return false }

// Miss takes in the DELETED event of a shard's lease, which a watch with [Selector] also tells when only the label was removed.
func (r *Roster) Miss(shard string, now Reading) (changed bool) { return false }

// Read takes in what a consistent read of a shard's lease returned (nil: NotFound) that was sent after an object was read whose record
// names e.
func (r *Roster) Read(shard string, e Epoch, l *coordinationv1.Lease, now Reading) (changed bool) {
	return false
}

// Shards returns the names of all shards that are not [Gone], sorted.
func (r *Roster) Shards(now Reading) []string { return nil }

// Members returns the names of the shards that take part in the ring, sorted.
func (r *Roster) Members(now Reading) []string { return nil }

// State of a shard.
func (r *Roster) State(shard string, now Reading) State { return Gone }

// Problem says why a shard's lease is [Malformed]; nil if it is not.
func (r *Roster) Problem(shard string) error { return nil }

// Epoch is that of a shard to which objects can be assigned now: a member that was seen holding its lease. It may have expired.
func (r *Roster) Epoch(shard string, now Reading) (e Epoch, ok bool) { return Epoch{}, false }

// Verdict on the epoch e of a shard. Only [Over] allows to act without that shard.
func (r *Roster) Verdict(shard string, e Epoch, now Reading) Verdict { return Live }

// Next is after how long the state of a shard, or a verdict, changes unless its lease does; ok is false if that never happens.
func (r *Roster) Next(now Reading) (wait time.Duration, ok bool) { return 0, false }

// Acquisition returns the write by which the sharder takes the lease of a shard that is [Uncertain], or whose epoch is [Unproven]; ok is
// false if it must not be taken. It is good for one [Acquire]: after any error the lease has to be read anew.
func (r *Roster) Acquisition(shard string, now Reading) (l *coordinationv1.Lease, ok bool) {
	return nil, false
}

// Acquire sends an acquisition. It succeeds exactly once for each version that was seen; give what it returns to See. After a conflict
// the shard has come back, or another sharder was faster.
func Acquire(ctx context.Context, client kubernetes.Interface, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return nil, nil
}

// Collection returns the preconditions with which the lease of an [Orphaned] shard may be deleted, once no object carries its label; ok
// is false if it must not be. The check for objects has to come after this call.
func (r *Roster) Collection(shard string, now Reading) (o metav1.DeleteOptions, ok bool) {
	return metav1.DeleteOptions{}, false
}
