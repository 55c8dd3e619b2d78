package lease

import coordinationv1 "k8s.io/api/coordination/v1"

// Variant is what one kind of lease does beyond what all do. Its functions are pure; each may be
// nil.
type Variant struct {
	// Unfit says why a candidate must leave a record alone for good. A holder who sees such a
	// record has lost.
	Unfit func(r Record) error
	// Reclaim reports whether the holder of a record is known to have ended, so that candidates
	// need not wait for that.
	Reclaim func(r Record) bool
	// Dress completes a write that takes a lease over from prior or, where prior is the version
	// that began the term, renews or releases it. It changes nothing but metadata. leaving: work
	// has been told to stop, and has not ended yet.
	Dress func(l *coordinationv1.Lease, prior Record, leaving bool)
	// SaysLeaving has the lease be renewed at once when work has been told to stop, so that others
	// can see it.
	SaysLeaving bool
	// Altered says why r, whose spec may still be that of a term, is not of the term any more that
	// began with first.
	Altered func(first, r Record) error
}

func (v Variant) unfit(r Record) error {
	if v.Unfit == nil || !r.Exists() {
		return nil
	}
	return v.Unfit(r)
}

func (v Variant) reclaim(r Record) bool { return v.Reclaim != nil && r.Exists() && v.Reclaim(r) }

func (v Variant) altered(first, r Record) error {
	if v.Altered == nil || !r.Exists() {
		return nil
	}
	return v.Altered(first, r)
}

func (v Variant) dress(l *coordinationv1.Lease, prior Record, leaving bool) *coordinationv1.Lease {
	if v.Dress != nil {
		v.Dress(l, prior, leaving)
	}
	return l
}

// unfit says why a record must be left alone for good, even without a holder.
func (c Config) unfit(r Record) error {
	if r.Coordinated() {
		return ErrCoordinated
	}
	if r.ForLife() {
		return ErrForLife
	}
	return c.Variant.unfit(r)
}

// unfitError is why a candidate gives up.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }
