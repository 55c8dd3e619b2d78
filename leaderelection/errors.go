package leaderelection

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var (
	// ErrHeld is what every [HeldError] is.
	ErrHeld = errors.New("leaderelection: somebody else is the leader")

	// ErrLost is what the errors are that OnLost and the cause of lead's context report. Their text says which Lease was
	// lost, why, who holds it now and when it was last renewed.
	ErrLost = lease.ErrLost

	// ErrCoordinated is returned by Run and TryAcquire for a Lease whose spec has a strategy or a preferredHolder: Kubernetes'
	// coordinated leader election decides who holds it. It is never written.
	ErrCoordinated = lease.ErrCoordinated

	// ErrForLife is returned by Run and TryAcquire for a Lease that is the lock of a leader for life, of package leaderforlife. It is
	// never written.
	ErrForLife = lease.ErrForLife

	// ErrNotLeader is returned by Renew and Release of an elector that holds no term. It is also what every error of a
	// guarded request is ([Elector.WrapTransport]): alone, the request was not sent; together with ErrOutcomeUnknown, it was.
	ErrNotLeader = errors.New("leaderelection: not the leader")

	// ErrUnhealthy is what, beside ErrLost, the error of a loss is that came about because [Config].Healthy failed. It wraps
	// what that said last.
	ErrUnhealthy = lease.ErrUnhealthy

	// ErrOutcomeUnknown is what the error of a guarded request is, beside ErrNotLeader, that was under way when the
	// leadership ended: it may have been carried out, or may still be. Whoever leads next finds out by reading. It is
	// also what the error of a renewal is of which nobody could tell yet whether it stands.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrBusy is returned by a method of an [Elector] that excludes another one which is still running.
	ErrBusy = errors.New("leaderelection: Run, TryAcquire, Renew or Release of this elector is already running")
)

// HeldError is returned by TryAcquire when the Lease is not free.
type HeldError struct {
	// Lease that was asked for.
	Lease types.NamespacedName
	// Holder is the identity in the record. It is empty if somebody emptied the record, or deleted it, without marking
	// that the leader's work had ended.
	Holder string
	// Wait is for how long the record has to stand unchanged from now until it may be taken over.
	Wait time.Duration
}

// Error names the holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("leaderelection: lease %s is held by %q (free in %v if not renewed)", e.Lease, e.Holder, e.Wait.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
