package shardlease

import (
	"errors"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var (
	// ErrNotHeld is what the error is of whatever needs the lease while this process does not hold
	// it. It is also what every error of a guarded request is ([Lease.WrapTransport]): alone, the
	// request was not sent; together with ErrOutcomeUnknown, it was.
	ErrNotHeld = errors.New("shardlease: the shard lease is not held")

	// ErrLost is what the errors are that OnLost and the cause of work's context report. Their text
	// says which Lease was lost, why, who holds it now and when it was last renewed.
	ErrLost = lease.ErrLost

	// ErrUnfinished is also matched, beside ErrLost, when the lease was lost because nothing
	// could say that work had ended: work returned an error, or what [Lease.Await] was given did.
	ErrUnfinished = lease.ErrUnfinished

	// ErrForeign is returned by Run for a Lease of the shard's name that is not a lease of its
	// ring. It is never written.
	ErrForeign = errors.New("not a lease of this ring")

	// ErrUnhealthy is what, beside ErrLost, the error of a loss is that came about because
	// [Config].Healthy failed. It wraps what that said last.
	ErrUnhealthy = lease.ErrUnhealthy

	// ErrOutcomeUnknown is what the error of a guarded request is, beside ErrNotHeld, that was
	// under way when the term ended: it may have been carried out, or may still be.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrBusy is returned by Run while another Run of the same Lease has not returned.
	ErrBusy = errors.New("shardlease: Run of this lease is already running")
)
