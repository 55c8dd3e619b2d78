package protocol

import (
	"fmt"
	"slices"
)

// EpochState is whether a shard may be at work in an epoch, as far as the sharder can know.
type EpochState int

const (
	EpochActive     EpochState = iota // it may be
	EpochEnded                        // it is not, and never will be
	EpochUnknown                      // not known before its Lease has been read again, after the object
	EpochUnproven                     // not known before the sharder has taken its Lease, which takes time
	EpochNeverBegan                   // there was no such epoch when the Lease was read, after the object
)

// Claim is what is known of a tenant that may be at work.
type Claim struct {
	OwnerEpoch
	EpochState
	// Current says that the shard holds its Lease in this epoch, or did until recently: it can be given objects, and be asked.
	Current bool
}

// Situation is all that the decision for one root depends on.
type Situation struct {
	Root
	// Target is the root's owner on the ring.
	Target Claim
	// Owner is whether the owner in the root's record may be at work.
	Owner EpochState
	// Resident says that the owner in the root's record, in this life, is a member of the ring.
	Resident bool
	// Claims are those in the Left of the root's record; without a valid record, of those who owned the root under any membership
	// since the ring was settled last.
	Claims []Claim
}

// Verb is what is to be done about a root.
type Verb string

// What can be done about a root.
const (
	Keep     Verb = "keep"     // nothing: it is where it belongs
	Await    Verb = "await"    // nothing: its shard has been asked to let go, and will
	Hold     Verb = "hold"     // nothing yet: whether a shard is at work is not known
	Reread   Verb = "reread"   // nothing yet: a Lease has to be read first
	Assign   Verb = "assign"   // give it to its owner on the ring
	restore  Verb = "restore"  // make its label what its record says
	drain    Verb = "drain"    // ask its shard to let go
	withdraw Verb = "withdraw" // tell its shard to go on
	probe    Verb = "probe"    // ask a shard that may be at work to say that it is not
	seal     Verb = "seal"     // leave it where it is, but write its record so that copies can be told from it
	Annul    Verb = "annul"    // take its record, which none of ours has written, for none, and ask those who may be at work
	gather   Verb = "gather"   // leave it where it is, but have its children there, too, of which its record does not know
	Follow   Verb = "follow"   // of a child: give it to the shard of its root
)

// Decision is what is to be done about a root.
type Decision struct {
	Verb  Verb
	About OwnerEpoch // whose life has to be known first; for hold and reread

	// What the root shall be, where something is written: the label of its shard, whether it carries the drain label, and its record; nil:
	// the one that it has.
	Label  string
	Drain  bool
	Record *Record
}

// writes reports whether there is something to write.
func (d Decision) writes() bool {
	switch d.Verb {
	case Assign, restore, drain, withdraw, probe, seal, Annul, gather:
		return true
	}
	return false
}

// Placed reports whether the root, once the decision has been carried out, is with its owner on the ring and in nobody else's hands.
func (d Decision) Placed() bool { return d.Verb == Keep || d.writes() && !d.Drain && d.Verb != Annul }

// Why says in words what is to be done.
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
		return fmt.Sprintf("its record names an epoch of shard %q that has never been, and counts as none", d.Record.Shard)
	case Assign:
		return fmt.Sprintf("nobody works on it, and it belongs to shard %q", d.Label)
	case restore:
		return fmt.Sprintf("its record says that shard %q may work on it, and its label does not", d.Label)
	case drain:
		return fmt.Sprintf("it belongs to another shard than %q", d.Label)
	case withdraw:
		return fmt.Sprintf("it belongs to shard %q again, or somebody else has set the drain label", d.Label)
	case probe:
		return fmt.Sprintf("it has no record that says so, but shard %q may work on it, and is asked", d.Label)
	case seal:
		return "it is with its owner on the ring, but a copy of its record, or of another object's, could be taken for it"
	case gather:
		return "it is with its owner on the ring, but there may be children of it that are not"
	}
	return ""
}

// Decide is the rule of the protocol for one root.
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
		return s.next() // to the same shard, in its next life, too
	case EpochNeverBegan:
		return Decision{Verb: Annul, Record: s.annulled()}
	}
	asked := r.Shard != s.Target.Shard || len(r.Left) > 0
	switch {
	case s.Label != r.Shard: // a user's edit is no reason to hand the root over: its shard may be at work
		return Decision{Verb: restore, Label: r.Shard, Drain: asked}
	case r.Shard == s.Target.Shard && owner != s.Target.OwnerEpoch: // another process of that name holds the Lease now: this one ends
		return Decision{Verb: Hold, About: owner}
	case asked && (!s.Drain || s.successor != nil && *s.successor != s.Target.OwnerEpoch):
		return Decision{Verb: drain, Label: r.Shard, Drain: true, Record: s.successorRecord()}
	case asked: // also if the target is the same shard again, but others are left to ask
		return Decision{Verb: Await}
	case s.Drain:
		return Decision{Verb: withdraw, Label: r.Shard, Record: s.recordWithoutSuccessor()}
	case s.scattered:
		return Decision{Verb: gather, Label: r.Shard, Record: &r}
	case s.unsealed || len(s.Foreign) > 0:
		return Decision{Verb: seal, Label: r.Shard, Record: &r}
	}
	return Decision{Verb: Keep}
}

// successorRecord is the record of a root that its owner is to give to the target itself; nil: it is to let
// go of the root, and the sharder sees to the rest. That is so if children go along, or somebody is
// left to be asked.
//
// And if the owner is no member. A drain that was sent may be carried out at any time while the root
// is as it was: also when the ring is settled, with the root where it is now, and the history has
// forgotten that it was to be the target's. Then nobody would ask the target, should the record be
// lost. But a member that keeps the root has no claim before it on the ring but those that are no
// members any more, and the history names those until they are over.
func (s Situation) successorRecord() *Record {
	if s.family || len(s.Record.Left) > 0 || !s.Resident || !s.Target.Current {
		return nil
	}
	r, heir := s.Record, s.Target.OwnerEpoch
	r.Next = &heir
	return &r
}

// recordWithoutSuccessor is the record of a root that its owner keeps; nil: the one that it has.
func (s Situation) recordWithoutSuccessor() *Record {
	if s.Record.Next == nil {
		return nil
	}
	r := s.Record
	r.Next = nil
	return &r
}

// next is the decision for a root on which nobody is at work but, perhaps, those with a claim. They are asked one after another: who is
// asked becomes the owner of a drained root, and acknowledges without ever having worked on it.
func (s Situation) next() Decision {
	for _, c := range s.Claims {
		if c.EpochState == EpochUnknown && c.OwnerEpoch != s.Target.OwnerEpoch { // first, so that they are waited for together
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
	case len(ask) == 0 && !s.Target.Current: // another membership, or its next epoch, is about to come
		return Decision{Verb: Hold, About: target}
	case len(ask) == 0:
		return Decision{Verb: Assign, Label: target.Shard, Record: s.owned(target, nil)}
	}
	// The target may have worked on the root too: it has to be asked, should the ring change meanwhile.
	left := append(ask[1:len(ask):len(ask)], target)
	record := s.owned(ask[0], left)
	record.Probed = true
	return Decision{Verb: probe, Label: ask[0].Shard, Drain: true, Record: record}
}

// annulled is the record of a root whose record names an epoch that has never been: somebody has
// forged it, or restored etcd. The true one is lost, so those have to be asked who may have owned
// the root. And so has the shard in that epoch, which may begin before this is written: if the
// Lease is read again after that, and there is no such epoch yet, it never works by the forged
// record.
func (s Situation) annulled() *Record {
	r := s.Record
	r.State, r.Probed, r.Next, r.ChildFloor = StateFree, true, nil, nil
	r.Left = []OwnerEpoch{s.Record.Owner()}
	for _, c := range s.Claims {
		if !slices.Contains(r.Left, c.OwnerEpoch) {
			r.Left = append(r.Left, c.OwnerEpoch)
		}
	}
	return &r
}

// Without returns the situation once it is known that there has never been such a life of a shard.
// owners are those who may have owned the root, if it has no true record.
func (s Situation) Without(t OwnerEpoch, owners []Claim) Situation {
	if s.Recorded && s.Record.State == StateOwned && s.Record.Owner() == t {
		s.Owner = EpochNeverBegan
		s.Claims = append(slices.Clone(s.Claims), owners...)
		return s
	}
	s.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(c Claim) bool { return c.OwnerEpoch == t })
	return s
}

// MovesChildren reports whether the children of the root have to be with its shard before the decision is carried out.
func (d Decision) MovesChildren() bool { return d.Verb == Assign || d.Verb == gather }

// Origin is with which shard the children of a root are that is to be assigned.
type Origin struct {
	// Any says that they may be with any shard.
	Any bool
	// Shard is otherwise the one that they may be with, besides those that are with no member of the ring; empty: there is none.
	Shard string
}

// Origin of the children, by what is known of the root.
func (s Situation) Origin() Origin {
	switch {
	case !s.Recorded: // a new root, whose children nobody has labelled; or one that was stripped, whose children are with the target
		return Origin{Any: slices.ContainsFunc(s.Claims, func(c Claim) bool { return c.OwnerEpoch != s.Target.OwnerEpoch })}
	case s.Record.Probed, s.scattered:
		return Origin{Any: true}
	}
	return Origin{Shard: s.Record.Shard}
}

// ShardOfChildren is the shard whose label the children of a root are to carry; ok is false if that is to be seen when it is assigned.
func (s Situation) ShardOfChildren() (shard string, ok bool) {
	return s.Record.Shard, s.Recorded && s.Record.State == StateOwned && s.Owner == EpochActive
}

func (s Situation) owned(by OwnerEpoch, left []OwnerEpoch) *Record {
	return &Record{UID: s.UID, Shard: by.Shard, LeaseUID: by.LeaseUID, Epoch: by.Epoch, State: StateOwned, Left: left}
}
