package lease

import (
	"errors"
	"fmt"
	"time"
)

// Orphan is the lease of a process that has died, together with all processes that it has started.
// Its supervisor releases it, so that a successor need not wait until it expires.
type Orphan struct {
	Process string // its mark in the records that it has written
	Timing  Timing
	// MinUptime is how long the term must have lasted. A process that dies sooner may be in a crash
	// loop.
	MinUptime time.Duration
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
