package shardlease

import "fmt"

// State is what a sharder makes of a shard's lease: a function of its versions, of when they were received, and of the time, all by the
// sharder's own clock. D is the duration of the lease.
type State int

const (
	// Gone is no lease at all, of a shard that was never seen or was dead before its lease was deleted.
	Gone State = iota
	// Malformed leases are not what a shard of this ring writes ([Roster.Problem] says why). They are never members.
	Malformed
	// Orphaned is Dead for [RosterConfig].GCPeriod: the lease may be deleted.
	Orphaned
	// Dead is a lease that its shard has released, or that the sharder has taken.
	Dead
	// Uncertain is a lease that was not renewed for 2D. It is for the sharder to try to acquire it: only if that succeeds is the shard dead.
	Uncertain
	// Expired is a lease that was not renewed for D. Its shard has stopped, or is about to, and may come back: until 2D nothing moves. So it
	// is with a lease that somebody other than the sharder has deleted, or emptied without the mark of a release.
	Expired
	// Away is a lease that its shard has released, and is expected to hold again ([Config].ReturnWithin): nothing moves until then.
	Away
	// Ready is a lease that its shard holds.
	Ready
)

// Member reports whether the shard takes part in the ring.
func (s State) Member() bool { return s >= Uncertain }

// String is the name of the constant.
func (s State) String() string {
	switch s {
	case Gone:
		return "Gone"
	case Malformed:
		return "Malformed"
	case Orphaned:
		return "Orphaned"
	case Dead:
		return "Dead"
	case Uncertain:
		return "Uncertain"
	case Expired:
		return "Expired"
	case Away:
		return "Away"
	case Ready:
		return "Ready"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Verdict is what a sharder knows about an epoch that an object's record names.
type Verdict int

const (
	// Live epochs may be worked in, for all that is known.
	Live Verdict = iota
	// Over epochs are those in which no process works, nor ever will.
	Over
	// Unread is of an epoch that is newer than what was seen of the lease: read the lease consistently, after the object
	// ([Roster.Read]), before anything is decided about it. If it is Unread right after such a read, no shard has ever had it.
	Unread
	// Unproven is of an epoch whose lease has been missing for 2D: the sharder has to create the lease as its own ([Roster.Acquisition])
	// to prove that.
	Unproven
)

// String is the name of the constant.
func (v Verdict) String() string {
	switch v {
	case Live:
		return "Live"
	case Over:
		return "Over"
	case Unread:
		return "Unread"
	case Unproven:
		return "Unproven"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}
