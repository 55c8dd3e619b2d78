package leaderelection

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var (
	// ErrHeld is matched by every [HeldError].
	ErrHeld = errors.New("leaderelection: another process holds the lease")

	// ErrLost is matched by the error of OnLost and the cause of the lead function's context. Their
	// text names the Lease, the reason, the present holder and the last renewal.
	ErrLost = lease.ErrLost

	// ErrCoordinated is returned by Run and TryAcquire for a Lease whose spec has a strategy or a
	// preferredHolder: Kubernetes' coordinated leader election owns it. The Lease is not written.
	ErrCoordinated = lease.ErrCoordinated

	// ErrForLife is returned by Run and TryAcquire for a Lease that is a lock of package
	// leaderforlife. The Lease is not written.
	ErrForLife = lease.ErrForLife

	// ErrNotLeader is returned by Renew and Release without a term, and matched by every error of a
	// guarded request ([Elector.WrapTransport]). Without ErrOutcomeUnknown, the request was not
	// sent.
	ErrNotLeader = errors.New("leaderelection: not the leader")

	// ErrUnhealthy is matched, besides ErrLost, if leadership was lost because [Config].Healthy
	// kept failing. The error wraps the last error of Healthy.
	ErrUnhealthy = lease.ErrUnhealthy

	// ErrSteppedDown is matched, besides ErrLost, by the cause of the lead function's context if the
	// function has to return before the deadline ([Config].StepDown). The term lasts until then.
	ErrSteppedDown = lease.ErrSteppedDown

	// ErrOutcomeUnknown is matched, besides ErrNotLeader, by the error of a guarded request that
	// was under way when leadership ended, because it may still be carried out; the next leader
	// learns the outcome by reading. The error of a renewal that may or may not have been stored
	// matches it as well.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrBusy is returned by Run, TryAcquire, Renew and Release while another of them runs on this
	// elector.
	ErrBusy = errors.New("leaderelection: Run, TryAcquire, Renew or Release of this elector is already running")
)

// HeldError is returned by TryAcquire when the Lease is not free.
type HeldError struct {
	// Lease is the requested Lease.
	Lease types.NamespacedName
	// Holder is the identity in the record. It is empty if the record was emptied or deleted
	// without the mark of a release.
	Holder string
	// Wait is how long the record must stay unchanged from now until it may be taken over.
	Wait time.Duration
}

// Error names the holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("leaderelection: lease %s is held by %q (free in %v if not renewed)",
		e.Lease, e.Holder, e.Wait.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
