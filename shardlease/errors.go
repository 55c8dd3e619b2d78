package shardlease

import (
	"errors"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var (
	// ErrNotHeld is returned by everything that needs the lease while this process does not hold
	// it, and matched by every error of a guarded request ([Lease.WrapTransport]). Without
	// ErrOutcomeUnknown, the request was not sent.
	ErrNotHeld = errors.New("shardlease: the shard lease is not held")

	// ErrLost is matched by the error of OnLost and the cause of work's context. Their text names
	// the Lease, the reason, the present holder and the last renewal.
	ErrLost = lease.ErrLost

	// ErrUnfinished is matched, besides ErrLost, when the lease was lost because work may not have
	// ended: work, or a function of [Lease.AddReleaseGate], returned an error.
	ErrUnfinished = lease.ErrUnfinished

	// ErrForeign is returned by Run for a Lease of the shard's name that is not one of its ring.
	// The Lease is not written.
	ErrForeign = errors.New("shardlease: not a lease of this ring")

	// ErrUnhealthy is matched, besides ErrLost, when the lease was lost because [Config].Healthy
	// kept failing. The error wraps the last one of Healthy.
	ErrUnhealthy = lease.ErrUnhealthy

	// ErrSteppedDown is matched, besides ErrLost, by the cause of work's context if work must
	// return before the deadline ([Config].StepDown). The term lasts until then.
	ErrSteppedDown = lease.ErrSteppedDown

	// ErrOutcomeUnknown is matched, besides ErrNotHeld, by the error of a guarded request that was
	// under way when the term ended, and may be carried out.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrBusy is returned by Run while another Run of the same Lease has not returned.
	ErrBusy = errors.New("shardlease: Run of this lease is already running")
)
