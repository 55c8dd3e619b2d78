package lease

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Claim is what a supervisor must know of a lease that its process may hold.
type Claim struct {
	Lease   types.NamespacedName
	Process string // the mark of the process in the records that it writes
	Timing  Timing
	// MinUptime is how long the term must have lasted. A process that dies sooner may be in a crash
	// loop.
	MinUptime time.Duration
}

// Orphan is the lease of a process that has died, together with all processes that it has started.
// Its supervisor releases it, so that a successor need not wait until it expires.
type Orphan struct {
	Claim
	Entries
}

// Reasons why an orphan is not released.
var (
	ErrNoTerm   = errors.New("it held no term")
	ErrTooLate  = errors.New("its term has ended by itself")
	ErrTooYoung = errors.New("it died soon after it had taken the lease")
)

// Wait returns how long after the death a request of the process may still be carried out. That is a
// margin for those under way, whose connections end with the process, and until OpenUntil for those
// that have failed. It is zero if all guarded requests had an answer.
func (o Orphan) Wait(died time.Duration) time.Duration {
	if o.Guarded && o.Open == 0 && o.OpenUntil <= died {
		return 0
	}
	return max(o.Timing.Margin, o.OpenUntil-died)
}

// FreeAt returns when the lease may be released. If it must not be, it returns [ErrNoTerm],
// [ErrTooYoung] or [ErrTooLate]. died is when all processes had ended. Both times are readings of
// the ledger's clock.
func (o Orphan) FreeAt(died time.Duration) (time.Duration, error) {
	free := died + o.Wait(died)
	switch {
	case o.Until == 0:
		return 0, ErrNoTerm
	case died-o.Since < o.MinUptime:
		return 0, fmt.Errorf("%w (after %v; MinUptime is %v)", ErrTooYoung, (died - o.Since).Round(time.Millisecond),
			o.MinUptime)
	case free >= o.Until:
		return 0, ErrTooLate
	}
	return free, nil
}

// GiveUpAt returns when a release that begins now is not tried any more: after a Margin and a renew
// interval, which the first request may take without an answer, and at the end of the term at the
// latest. A later release would gain little, and the restart of the process waits for it.
func (o Orphan) GiveUpAt(now time.Duration) time.Duration {
	return min(o.Until, now+o.Timing.Margin+o.Timing.RenewInterval())
}

// Ledger is what the supervisor of this process reads when the process has died: until when a term
// lasts, and whether a guarded request may be under way. Both processes share its memory, so
// nothing is lost in a crash. Its methods return at once and may be called at any time.
type Ledger interface {
	// Now reads the clock of the ledger, which is also that of the supervisor.
	Now() time.Duration
	// Hold records when a term has begun, when it ends if it is not renewed, and whether a client
	// is guarded, because then all requests that count are.
	Hold(since, until time.Duration, guarded bool)
	// Stored records a version of the Lease that a write of this process has made, which need not be
	// the last one. The supervisor can replace it without reading the Lease first.
	Stored(r Record)
	// Free records that no term is held.
	Free()
	// Send counts a guarded request that is about to be sent.
	Send()
	// Answer records that a request was answered, or has failed and may be carried out until then.
	Answer(until time.Duration)
	// Begin records that work on an object, by its digest, has begun. Call end when it has ended.
	Begin(object uint64) (end func())
}

// Entries are the contents of a [Ledger]. Times are readings of its clock.
type Entries struct {
	Since, Until time.Duration // of the term; both zero if none was held
	Guarded      bool          // a client was guarded
	Open         int           // guarded requests without an answer
	OpenUntil    time.Duration // requests that have failed may be carried out until then
	Work         Work
	Stored       Record // a version of the Lease; absent if it is not known
}

// Work is what a process that has died worked on.
type Work struct {
	// Objects are digests of the objects.
	Objects []uint64
	// All reports that there were no other objects.
	All bool
}
