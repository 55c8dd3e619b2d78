package protocol

import (
	"fmt"
	"slices"
)

// EpochState is whether a shard may be at work in an epoch, as far as the sharder knows.
type EpochState int

// States of an epoch.
const (
	EpochActive     EpochState = iota // the shard may be at work
	EpochEnded                        // the shard is not at work, and never will be
	EpochUnknown                      // the Lease must be read again, after the object
	EpochUnproven                     // the sharder must first take the Lease over, which takes time
	EpochNeverBegan                   // the Lease, read after the object, had no such epoch
)

// Claim is what is known of an epoch that may be at work.
type Claim struct {
	OwnerEpoch
	EpochState
	// Current means that the shard holds its Lease in this epoch, or did until recently, so that it
	// can be given objects, and be asked to let go.
	Current bool
	// Renewing means that the shard renews its Lease, as of now.
	Renewing bool
}

// Situation is the input of [Decide] for one root.
type Situation struct {
	Root
	// Target is the root's owner on the ring, or the shard that it is diverted to.
	Target   Claim
	Diverted bool
	// Owner is the state of the epoch in the root's record.
	Owner EpochState
	// Resident means that the owner in the root's record, in that epoch, is a member of the ring.
	Resident bool
	// Claims are the epochs in Left of the root's record. Without a valid record, they are those
	// that owned the root under any membership since the ring last settled.
	Claims []Claim
}

// Vacancy returns why no living shard owns the root, or "" if one does or may.
func (s Situation) Vacancy() string {
	switch {
	case !s.Recorded:
		return "it has no valid record of its owner"
	case s.HeldBack():
		return fmt.Sprintf("it is held back: %d shards have crashed one after another while they had it, the last one "+
			"was %s", s.Record.Crashes.Count, s.Record.Shard)
	case s.Record.State == StateFree:
		return fmt.Sprintf("shard %s has let go of it, and it was not assigned to another one", s.Record.Shard)
	case s.Owner == EpochEnded, s.Owner == EpochNeverBegan:
		return fmt.Sprintf("its owner, shard %s, has ended", s.Record.Shard)
	case s.Owner == EpochUnproven:
		return fmt.Sprintf("its owner, shard %s, does not renew its Lease", s.Record.Shard)
	}
	return ""
}

// HeldBack reports whether the root gets no owner for a while, because it may be why shards crash.
func (s Situation) HeldBack() bool {
	return s.Recorded && s.Record.State == StateFree && s.Record.Crashes.Suspicious()
}

// Verb is the action for a root.
type Verb string

// The verbs of a [Decision].
const (
	Keep     Verb = "keep"     // do nothing: it is where it belongs
	Await    Verb = "await"    // do nothing: its shard has been asked to let go
	Hold     Verb = "hold"     // do nothing yet: whether a shard is at work is unknown
	Reread   Verb = "reread"   // do nothing yet: read a Lease first
	Assign   Verb = "assign"   // give it to its owner on the ring
	Restore  Verb = "restore"  // set the label that its record calls for
	Drain    Verb = "drain"    // ask its shard to let go
	Withdraw Verb = "withdraw" // remove the drain label: its shard continues
	Probe    Verb = "probe"    // ask a shard that may be at work to acknowledge that it is not
	Seal     Verb = "seal"     // write its record again, without the records of other objects beside it
	Annul    Verb = "annul"    // discard a record that no sharder wrote; probe those that may be at work
	Gather   Verb = "gather"   // bring children that its record does not cover to its shard
	Follow   Verb = "follow"   // of a child: give it to the shard of its root
	Suspend  Verb = "suspend"  // take it from a shard that has ended, and give it to no other one yet
	Protect  Verb = "protect"  // give it another version before its children move: earlier patches fail
)

// Decision is what to do about a root.
type Decision struct {
	Verb  Verb
	About OwnerEpoch // for Hold and Reread: the epoch whose state must be known first

	// For verbs that write: the value of the shard label, whether to set the drain label, and the
	// new record. A nil Record leaves the present one.
	Label  string
	Drain  bool
	Record *Record
}

// Placed reports whether the decision leaves the root with its owner on the ring, and no other
// shard with a claim to it.
func (d Decision) Placed() bool {
	switch d.Verb {
	case Keep:
		return true
	case Assign, Restore, Drain, Withdraw, Probe, Seal, Gather:
		return !d.Drain
	}
	return false
}

// Why explains the decision.
func (d Decision) Why() string {
	switch d.Verb {
	case Keep:
		return "it is with its owner on the ring"
	case Await:
		return "its shard has been asked to let go of it, and has not yet"
	case Hold:
		return fmt.Sprintf("whether shard %q is at work is not known yet, or it cannot take objects", d.About.Shard)
	case Reread:
		return fmt.Sprintf("whether shard %q is at work is not known before its Lease has been read", d.About.Shard)
	case Annul:
		return fmt.Sprintf("its record is ignored: it names an epoch of shard %q that never existed",
			d.Record.Shard)
	case Assign:
		return fmt.Sprintf("no shard works on it, and it belongs to shard %q", d.Label)
	case Restore:
		return fmt.Sprintf("its record says that shard %q may work on it, and its label does not", d.Label)
	case Drain:
		return fmt.Sprintf("it belongs to another shard than %q", d.Label)
	case Withdraw:
		return fmt.Sprintf("it belongs to shard %q again, or a user has set the drain label", d.Label)
	case Suspend:
		return "shards have crashed one after another while they had it"
	case Probe:
		return fmt.Sprintf("it has no record that says so, but shard %q may work on it, and is asked", d.Label)
	case Seal:
		return "it is with its owner on the ring, but carries copies of other objects' records"
	case Gather:
		return "it is with its owner on the ring, but there may be children of it that are not"
	}
	return ""
}

// Decide applies the rule of the protocol to one root.
func Decide(s Situation) Decision {
	if !s.Recorded || s.Record.State == StateFree {
		return s.next() // whatever the label
	}
	r, owner := s.Record, s.Record.Owner()
	switch s.Owner {
	case EpochUnknown:
		return Decision{Verb: Reread, About: owner}
	case EpochUnproven:
		return Decision{Verb: Hold, About: owner}
	case EpochEnded:
		return s.next() // perhaps to the same shard in its next epoch
	case EpochNeverBegan:
		return Decision{Verb: Annul, Record: s.annulled()}
	}
	asked := r.Shard != s.Target.Shard || len(r.Left) > 0
	switch {
	case s.Label != r.Shard: // a user's edit does not hand the root over: its shard may be at work
		return Decision{Verb: Restore, Label: r.Shard, Drain: asked}
	case r.Shard != s.Target.Shard && len(r.Left) == 0 && !s.Target.Renewing: // it could not take the root
		return Decision{Verb: Hold, About: s.Target.OwnerEpoch}
	case r.Shard == s.Target.Shard && owner != s.Target.OwnerEpoch:
		// Another process with that identity holds the Lease: this epoch is ending.
		return Decision{Verb: Hold, About: owner}
	case asked && (!s.Drain || s.successor != nil && *s.successor != s.Target.OwnerEpoch):
		return Decision{Verb: Drain, Label: r.Shard, Drain: true, Record: s.successorRecord()}
	case asked: // even if the same shard is the target, while others are left to ask
		return Decision{Verb: Await}
	case s.Drain:
		return Decision{Verb: Withdraw, Label: r.Shard, Record: s.recordWithoutSuccessor()}
	case s.scattered:
		return Decision{Verb: Gather, Label: r.Shard, Record: &r}
	case len(s.Foreign) > 0:
		return Decision{Verb: Seal, Label: r.Shard, Record: &r}
	}
	return Decision{Verb: Keep}
}

// successorRecord returns the record that lets the owner itself hand the root over to the target.
// It returns nil if the owner must let go and the sharder assigns the root: if the root may have
// children, if others are left to ask, if the target is not current, if the owner is not a
// member, or if the root is diverted.
//
// A drain may be carried out at any time while the root stays as it was. By then the ring may have
// settled with the root where it is, and the history may have forgotten the target, so that it
// would not be asked if the record were lost. A member that keeps the root is safe, because only
// former members can come before it on the ring, and the history names those until their epochs
// have ended.
func (s Situation) successorRecord() *Record {
	if s.family || len(s.Record.Left) > 0 || !s.Resident || !s.Target.Current || s.Diverted {
		return nil
	}
	r, heir := s.Record, s.Target.OwnerEpoch
	r.Next = &heir
	return &r
}

// recordWithoutSuccessor returns the record without its successor, or nil if it has none.
func (s Situation) recordWithoutSuccessor() *Record {
	if s.Record.Next == nil {
		return nil
	}
	r := s.Record
	r.Next = nil
	return &r
}

// next decides for a root that only shards with a claim may be working on. It asks them one after
// another: each becomes the owner of a drained root, and acknowledges that without having worked on
// it.
func (s Situation) next() Decision {
	for _, c := range s.Claims {
		// first, so that all reads are waited for together
		if c.EpochState == EpochUnknown && c.OwnerEpoch != s.Target.OwnerEpoch {
			return Decision{Verb: Reread, About: c.OwnerEpoch}
		}
	}
	var ask []OwnerEpoch
	for _, c := range s.Claims {
		switch {
		case c.OwnerEpoch == s.Target.OwnerEpoch || c.EpochState == EpochEnded:
		case !c.Current:
			return Decision{Verb: Hold, About: c.OwnerEpoch}
		default:
			ask = append(ask, c.OwnerEpoch)
		}
	}
	target := s.Target.OwnerEpoch
	switch {
	case len(ask) == 0 && !s.Target.Current: // another membership, or the target's next epoch, is about to come
		return Decision{Verb: Hold, About: target}
	case len(ask) == 0:
		return Decision{Verb: Assign, Label: target.Shard, Record: s.owned(target, nil)}
	}
	// The target may have worked on the root, so it must be asked if the ring changes meanwhile.
	left := append(ask[1:len(ask):len(ask)], target)
	record := s.owned(ask[0], left)
	record.Probed = true
	return Decision{Verb: Probe, Label: ask[0].Shard, Drain: true, Record: record}
}

// AsksOthers reports whether a decision about a root without a record would have it wait for other shards, or
// for one that does not renew its Lease. A root that never had an owner need not.
func (s Situation) AsksOthers(d Decision) bool { return d.Verb != Assign || !s.Target.Renewing }

// First returns the decision about a root that never had an owner.
func (s Situation) First(owner Claim) (Situation, Decision) {
	s.Target, s.Claims = owner, nil
	return s, Decide(s)
}

// annulled returns the record that replaces one with an epoch that never began, because it was
// forged, or etcd was restored. The true record is lost, so all possible owners must be asked.
// These include the shard in the forged epoch, which may begin before this is written. If a Lease
// read after the write still has no such epoch, that shard never works by the forged record.
func (s Situation) annulled() *Record {
	r := s.Record
	r.State, r.Probed, r.Next, r.ChildFloor, r.Childless = StateFree, true, nil, nil, nil
	r.Left = []OwnerEpoch{s.Record.Owner()}
	for _, c := range s.Claims {
		if !slices.Contains(r.Left, c.OwnerEpoch) {
			r.Left = append(r.Left, c.OwnerEpoch)
		}
	}
	return &r
}

// Without returns the situation once it is known that epoch t never began. owners are the possible
// owners of the root if t is the owner in its record.
func (s Situation) Without(t OwnerEpoch, owners []Claim) Situation {
	if s.Recorded && s.Record.State == StateOwned && s.Record.Owner() == t {
		s.Owner = EpochNeverBegan
		s.Claims = append(slices.Clone(s.Claims), owners...)
		return s
	}
	s.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(c Claim) bool { return c.OwnerEpoch == t })
	return s
}

// MovesChildren reports whether the root's children must be with its shard before the decision is
// carried out.
func (d Decision) MovesChildren() bool { return d.Verb == Assign || d.Verb == Gather }

// Origin is where the children are of a root that needs an owner.
type Origin struct {
	// Any means that they may be with any shard.
	Any bool
	// Shard, if Any is false, is the only member, if any, that may have children of the root.
	// Children may also be with shards that are not members.
	Shard string
}

// Origin returns where the children of the root may be.
func (s Situation) Origin() Origin {
	switch {
	case !s.Recorded: // new: its children have no label; or stripped: they are with the target
		return Origin{Any: slices.ContainsFunc(s.Claims,
			func(c Claim) bool { return c.OwnerEpoch != s.Target.OwnerEpoch })}
	case s.Record.Probed, s.scattered:
		return Origin{Any: true}
	}
	return Origin{Shard: s.Record.Shard}
}

// ShardOfChildren returns the shard whose label the root's children must carry; ok is false if that
// is decided when the root is assigned.
func (s Situation) ShardOfChildren() (shard string, ok bool) {
	return s.Record.Shard, s.Recorded && s.Record.State == StateOwned && s.Owner == EpochActive
}

// Suspend returns the decision to take the root from its owner, whose epoch has ended, and to give it to
// no other shard yet.
func (s Situation) Suspend(crashes *Crashes) Decision {
	r := s.Record
	r.State, r.Next, r.Crashes = StateFree, nil, crashes
	return Decision{Verb: Suspend, Record: &r}
}

func (s Situation) owned(by OwnerEpoch, left []OwnerEpoch) *Record {
	return &Record{UID: s.UID, Shard: by.Shard, LeaseUID: by.LeaseUID, Epoch: by.Epoch, State: StateOwned, Left: left}
}
