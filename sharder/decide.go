package sharder

import (
	"fmt"
	"slices"
)

// life is whether a shard may be at work in an epoch, as far as the sharder can know.
type life int

const (
	live     life = iota // it may be
	over                 // it is not, and never will be
	unread               // not known before its Lease has been read again, after the object
	unproven             // not known before the sharder has taken its Lease, which takes time
	never                // there was no such epoch when the Lease was read, after the object
)

// claim is what is known of a tenant that may be at work.
type claim struct {
	tenant
	life
	// current says that the shard holds its Lease in this epoch, or did until recently: it can be given objects, and be asked.
	current bool
}

// situation is all that the decision for one root depends on.
type situation struct {
	root
	// target is the root's owner on the ring.
	target claim
	// owner is whether the owner in the root's record may be at work.
	owner life
	// resident says that the owner in the root's record, in this life, is a member of the ring.
	resident bool
	// claims are those in the Left of the root's record; without a valid record, of those who owned the root under any membership
	// since the ring was settled last.
	claims []claim
}

// verb is what is to be done about a root.
type verb string

const (
	keep     verb = "keep"     // nothing: it is where it belongs
	await    verb = "await"    // nothing: its shard has been asked to let go, and will
	hold     verb = "hold"     // nothing yet: whether a shard is at work is not known
	reread   verb = "reread"   // nothing yet: a Lease has to be read first
	assign   verb = "assign"   // give it to its owner on the ring
	restore  verb = "restore"  // make its label what its record says
	drain    verb = "drain"    // ask its shard to let go
	withdraw verb = "withdraw" // tell its shard to go on
	probe    verb = "probe"    // ask a shard that may be at work to say that it is not
	seal     verb = "seal"     // leave it where it is, but write its record so that copies can be told from it
	annul    verb = "annul"    // take its record, which none of ours has written, for none, and ask those who may be at work
	gather   verb = "gather"   // leave it where it is, but have its children there, too, of which its record does not know
	follow   verb = "follow"   // of a child: give it to the shard of its root
)

// decision is what is to be done about a root.
type decision struct {
	verb  verb
	about tenant // whose life has to be known first; for hold and reread

	// What the root shall be, where something is written: the label of its shard, whether it carries the drain label, and its record; nil:
	// the one that it has.
	label  string
	drain  bool
	record *record
}

// writes reports whether there is something to write.
func (d decision) writes() bool {
	switch d.verb {
	case assign, restore, drain, withdraw, probe, seal, annul, gather:
		return true
	}
	return false
}

// placed reports whether the root, once the decision has been carried out, is with its owner on the ring and in nobody else's hands.
func (d decision) placed() bool { return d.verb == keep || d.writes() && !d.drain && d.verb != annul }

// why says in words what is to be done.
func (d decision) why() string {
	switch d.verb {
	case keep:
		return "it is with its owner on the ring"
	case await:
		return "its shard has been asked to let go of it, and has not yet"
	case hold:
		return fmt.Sprintf("whether shard %q is at work is not known yet, or it cannot take objects", d.about.Shard)
	case reread:
		return fmt.Sprintf("whether shard %q is at work is not known before its Lease has been read", d.about.Shard)
	case annul:
		return fmt.Sprintf("its record names an epoch of shard %q that has never been, and counts as none", d.record.Shard)
	case assign:
		return fmt.Sprintf("nobody works on it, and it belongs to shard %q", d.label)
	case restore:
		return fmt.Sprintf("its record says that shard %q may work on it, and its label does not", d.label)
	case drain:
		return fmt.Sprintf("it belongs to another shard than %q", d.label)
	case withdraw:
		return fmt.Sprintf("it belongs to shard %q again, or somebody else has set the drain label", d.label)
	case probe:
		return fmt.Sprintf("it has no record that says so, but shard %q may work on it, and is asked", d.label)
	case seal:
		return "it is with its owner on the ring, but a copy of its record, or of another object's, could be taken for it"
	case gather:
		return "it is with its owner on the ring, but there may be children of it that are not"
	}
	return ""
}

// decide is the rule of the protocol for one root.
func decide(s situation) decision {
	if !s.recorded || s.record.State == free {
		return s.next() // whatever the label
	}
	r, owner := s.record, s.record.tenant()
	switch s.owner {
	case unread:
		return decision{verb: reread, about: owner}
	case unproven:
		return decision{verb: hold, about: owner}
	case over:
		return s.next() // to the same shard, in its next life, too
	case never:
		return decision{verb: annul, record: s.annulled()}
	}
	asked := r.Shard != s.target.Shard || len(r.Left) > 0
	switch {
	case s.label != r.Shard: // a user's edit is no reason to hand the root over: its shard may be at work
		return decision{verb: restore, label: r.Shard, drain: asked}
	case r.Shard == s.target.Shard && owner != s.target.tenant: // another process of that name holds the Lease now: this one ends
		return decision{verb: hold, about: owner}
	case asked && (!s.drain || s.heir != nil && *s.heir != s.target.tenant):
		return decision{verb: drain, label: r.Shard, drain: true, record: s.bequest()}
	case asked: // also if the target is the same shard again, but others are left to ask
		return decision{verb: await}
	case s.drain:
		return decision{verb: withdraw, label: r.Shard, record: s.revoked()}
	case s.scattered:
		return decision{verb: gather, label: r.Shard, record: &r}
	case s.unsealed || len(s.foreign) > 0:
		return decision{verb: seal, label: r.Shard, record: &r}
	}
	return decision{verb: keep}
}

// bequest is the record of a root that its owner is to give to the target itself; nil: it is to let
// go of the root, and the sharder sees to the rest. That is so if children go along, or somebody is
// left to be asked.
//
// And if the owner is no member. A drain that was sent may be carried out at any time while the root
// is as it was: also when the ring is settled, with the root where it is now, and the history has
// forgotten that it was to be the target's. Then nobody would ask the target, should the record be
// lost. But a member that keeps the root has no claim before it on the ring but those that are no
// members any more, and the history names those until they are over.
func (s situation) bequest() *record {
	if s.family || len(s.record.Left) > 0 || !s.resident || !s.target.current {
		return nil
	}
	r, heir := s.record, s.target.tenant
	r.Next = &heir
	return &r
}

// revoked is the record of a root that its owner keeps; nil: the one that it has.
func (s situation) revoked() *record {
	if s.record.Next == nil {
		return nil
	}
	r := s.record
	r.Next = nil
	return &r
}

// next is the decision for a root on which nobody is at work but, perhaps, those with a claim. They are asked one after another: who is
// asked becomes the owner of a drained root, and acknowledges without ever having worked on it.
func (s situation) next() decision {
	for _, c := range s.claims {
		if c.life == unread && c.tenant != s.target.tenant { // first, so that they are waited for together
			return decision{verb: reread, about: c.tenant}
		}
	}
	var ask []tenant
	for _, c := range s.claims {
		switch {
		case c.tenant == s.target.tenant || c.life == over:
		case !c.current:
			return decision{verb: hold, about: c.tenant}
		default:
			ask = append(ask, c.tenant)
		}
	}
	target := s.target.tenant
	switch {
	case len(ask) == 0 && !s.target.current: // another membership, or its next epoch, is about to come
		return decision{verb: hold, about: target}
	case len(ask) == 0:
		return decision{verb: assign, label: target.Shard, record: s.owned(target, nil)}
	}
	// The target may have worked on the root too: it has to be asked, should the ring change meanwhile.
	left := append(ask[1:len(ask):len(ask)], target)
	record := s.owned(ask[0], left)
	record.Probed = true
	return decision{verb: probe, label: ask[0].Shard, drain: true, record: record}
}

// annulled is the record of a root whose record names an epoch that has never been: somebody has
// forged it, or restored etcd. The true one is lost, so those have to be asked who may have owned
// the root. And so has the shard in that epoch, which may begin before this is written: if the
// Lease is read again after that, and there is no such epoch yet, it never works by the forged
// record.
func (s situation) annulled() *record {
	r := s.record
	r.State, r.Probed, r.Next, r.ChildFloor = free, true, nil, nil
	r.Left = []tenant{s.record.tenant()}
	for _, c := range s.claims {
		if !slices.Contains(r.Left, c.tenant) {
			r.Left = append(r.Left, c.tenant)
		}
	}
	return &r
}

// without returns the situation once it is known that there has never been such a life of a shard.
// owners are those who may have owned the root, if it has no true record.
func (s situation) without(t tenant, owners []claim) situation {
	if s.recorded && s.record.State == owned && s.record.tenant() == t {
		s.owner = never
		s.claims = append(slices.Clone(s.claims), owners...)
		return s
	}
	s.claims = slices.DeleteFunc(slices.Clone(s.claims), func(c claim) bool { return c.tenant == t })
	return s
}

// brings reports whether the children of the root have to be with its shard before the decision is carried out.
func (d decision) brings() bool { return d.verb == assign || d.verb == gather }

// origin is with which shard the children of a root are that is to be assigned.
type origin struct {
	// any says that they may be with any shard.
	any bool
	// shard is otherwise the one that they may be with, besides those that are with no member of the ring; empty: there is none.
	shard string
}

// origin of the children, by what is known of the root.
func (s situation) origin() origin {
	switch {
	case !s.recorded: // a new root, whose children nobody has labelled; or one that was stripped, whose children are with the target
		return origin{any: slices.ContainsFunc(s.claims, func(c claim) bool { return c.tenant != s.target.tenant })}
	case s.record.Probed, s.scattered:
		return origin{any: true}
	}
	return origin{shard: s.record.Shard}
}

// leader is the shard whose label the children of a root are to carry; ok is false if that is to be seen when it is assigned.
func (s situation) leader() (shard string, ok bool) {
	return s.record.Shard, s.recorded && s.record.State == owned && s.owner == live
}

func (s situation) owned(by tenant, left []tenant) *record {
	return &record{UID: s.uid, Shard: by.Shard, LeaseUID: by.LeaseUID, Epoch: by.Epoch, State: owned, Left: left}
}
