package lease

import coordinationv1 "k8s.io/api/coordination/v1"

// Variant has the differences between kinds of leases. Its functions are pure, and each may be nil.
type Variant struct {
	// Unfit returns why a candidate must never take a record. A holder that sees such a record has
	// lost the lease.
	Unfit func(r Record) error
	// Reclaim reports whether the holder of a record is known to have ended. Candidates then need
	// not wait.
	Reclaim func(r Record) bool
	// Dress completes the metadata of a write that takes a lease over from prior, or that renews or
	// releases it; prior is then the version that began the term. leaving reports that work was
	// asked to stop and has not ended yet.
	Dress func(l *coordinationv1.Lease, prior Record, leaving bool)
	// SaysLeaving sends a renewal as soon as work is asked to stop, so that others see it.
	SaysLeaving bool
	// Altered returns why r is no longer of the term that began with first, although its spec may
	// be.
	Altered func(first, r Record) error
}

// WhyUnfit returns why a record must never be taken, even without a holder.
func (v Variant) WhyUnfit(r Record) error {
	switch {
	case r.Coordinated():
		return ErrCoordinated
	case r.ForLife():
		return ErrForLife
	case v.Unfit == nil || !r.Exists():
		return nil
	}
	return v.Unfit(r)
}

// Reclaims reports whether the holder of a record is known to have ended.
func (v Variant) Reclaims(r Record) bool { return v.Reclaim != nil && r.Exists() && v.Reclaim(r) }

// WhyAltered returns why r is no longer of the term that began with first.
func (v Variant) WhyAltered(first, r Record) error {
	if v.Altered == nil || !r.Exists() {
		return nil
	}
	return v.Altered(first, r)
}

// Dressed returns l with its metadata complete.
func (v Variant) Dressed(l *coordinationv1.Lease, prior Record, leaving bool) *coordinationv1.Lease {
	if v.Dress != nil {
		v.Dress(l, prior, leaving)
	}
	return l
}
