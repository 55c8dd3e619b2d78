package lease

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrLost is matched by every [LostError]. The others are the reasons; it wraps one of them.
var (
	ErrLost        = errors.New("lease lost")
	ErrDeadline    = errors.New("not renewed in time")
	ErrCoordinated = errors.New("the Lease belongs to Kubernetes' coordinated leader election (its spec has a " +
		"strategy or a preferredHolder)")
	ErrForLife = errors.New("the Lease is a lock for life, of package leaderforlife (it has the label " +
		LockLabel + ")")
	ErrTaken          = errors.New("the record is not ours any more")
	ErrKillTimer      = errors.New("the kernel's timer could not be set")
	ErrReleaseTimeout = errors.New("work did not return within ReleaseTimeout")
	ErrUnhealthy      = errors.New("the work is not healthy") // together with ErrDeadline
	ErrUnfinished     = errors.New("the work may not have ended")
)

// LostError says which lease was lost by whom, who holds it now, and when it was last renewed.
type LostError struct {
	Lease     types.NamespacedName
	Identity  string        // who lost it
	Holder    string        // who holds it now as far as is known; empty for none
	RenewedAt time.Time     // when the last successful renewal was sent
	Age       time.Duration // how long before the loss that was
	Err       error         // why: wraps ErrDeadline, ErrTaken, ErrReleaseTimeout or ErrKillTimer
}

// Error is one line for a log.
func (e *LostError) Error() string {
	return fmt.Sprintf("lease %s lost by %q: %v (last known holder %q; last renewed at %s, %v ago)",
		e.Lease, e.Identity, e.Err, e.Holder, e.RenewedAt.UTC().Format(time.RFC3339), e.Age.Round(time.Millisecond))
}

// Unwrap returns that it is a loss, and why.
func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Err} }
