package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrLost is matched by every [LostError]. The others are the reasons, and it wraps one of them.
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
	ErrUnfinished     = errors.New("some of the work may still run")
	ErrSteppedDown    = errors.New("not renewed for so long that the work has to end before the deadline")
)

// ErrOutcomeUnknown is matched by the error of a request that was under way when the term ended.
var ErrOutcomeUnknown = errors.New("the request was sent, and its outcome is unknown")

// LostError names the lost lease, its present holder, and its last renewal.
type LostError struct {
	Lease     types.NamespacedName
	Identity  string        // of the process that lost it
	Holder    string        // the known present holder, or empty
	RenewedAt time.Time     // when the last successful renewal was sent
	Age       time.Duration // from then to the loss
	Err       error         // the reason: wraps ErrDeadline, ErrTaken, ErrReleaseTimeout or ErrKillTimer
}

// Error is one line for a log.
func (e *LostError) Error() string {
	reason := strings.ReplaceAll(e.Err.Error(), "\n", "; ") // joined errors, and those of others
	renewed := fmt.Sprintf("last renewed at %s, %v ago", e.RenewedAt.UTC().Format(time.RFC3339),
		e.Age.Round(time.Millisecond))
	switch {
	case errors.Is(e.Err, ErrUnfinished): // the work's own error: the lease itself is in order
		return fmt.Sprintf("lease %s is not released: %s", e.Lease, reason)
	case errors.Is(e.Err, ErrSteppedDown) && !errors.Is(e.Err, ErrDeadline): // not that of another lease
		return fmt.Sprintf("lease %s is not lost yet by %q: %s (%s)", e.Lease, e.Identity, reason, renewed)
	}
	holder := "no holder is known"
	if e.Holder != "" {
		holder = fmt.Sprintf("last known holder %q", e.Holder)
	}
	return fmt.Sprintf("lease %s lost by %q: %s (%s; %s)", e.Lease, e.Identity, reason, holder, renewed)
}

// Unwrap returns ErrLost and the reason.
func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Err} }
