package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Orphan is the lease of a process that has died, together with all processes that it has started.
// Its supervisor releases it: a successor need not wait until it expires.
type Orphan struct {
	Process string // its mark in the records that it has written
	Timing  Timing
	// MinUptime is how long the term must have lasted. A process that dies earlier may be in a crash
	// loop.
	MinUptime time.Duration
	Entries
}

// Entries are what a [Ledger] says. Times are readings of its clock.
type Entries struct {
	Since, Until time.Duration // of the term; both zero if none was held
	Guarded      bool          // a client was guarded
	Open         int           // guarded requests without an answer
	OpenUntil    time.Duration // requests that have failed may be carried out until then
}

// Reasons why an orphan is not released.
var (
	ErrNoTerm   = errors.New("it held no term")
	ErrTooLate  = errors.New("its term has ended by itself")
	ErrTooYoung = errors.New("it died soon after it had taken the lease, perhaps in a crash loop")
)

// Wait returns how long after the death a request of the process may still be under way: a margin,
// as after a term that expires, unless all guarded requests had an answer.
func (o Orphan) Wait(died time.Duration) time.Duration {
	if o.Guarded && o.Open == 0 && o.OpenUntil <= died {
		return 0
	}
	return o.Timing.Margin
}

// Release empties the record with the mark of a release, if it is still one of the process. died is
// when all of its processes had ended, by the ledger's clock, which now reads. It returns the error
// of ctx, [ErrNoTerm], [ErrTooLate], [ErrTooYoung], or [ErrTaken] if the record is not of the process.
func (o Orphan) Release(ctx context.Context, store *Store, c clock.Clock, now func() time.Duration,
	died time.Duration,
) error {
	switch wait := o.Wait(died); {
	case o.Until == 0:
		return ErrNoTerm
	case died-o.Since < o.MinUptime:
		return fmt.Errorf("%w (after %v; MinUptime is %v)", ErrTooYoung, (died - o.Since).Round(time.Millisecond),
			o.MinUptime)
	case died+wait >= o.Until:
		return ErrTooLate
	default:
		if err := sleepUntil(ctx, c, now, died+wait); err != nil {
			return err
		}
	}
	pause, last := backoff(o.Timing), error(nil)
	for now() < o.Until {
		if last = o.try(ctx, store, c, o.Until-now()); last == nil || errors.Is(last, ErrTaken) {
			return last
		}
		if err := sleepUntil(ctx, c, now, now()+pause.Step()); err != nil {
			return err
		}
	}
	return errors.Join(ErrTooLate, last)
}

// try releases the record for the dead process within the time that is left.
func (o Orphan) try(ctx context.Context, store *Store, c clock.Clock, left time.Duration) error {
	return store.release(ctx, o.Process, min(o.Timing.RenewInterval(), left), c.Now().Wall)
}

// release reads the record and empties it if the process holds the lease. If a late renewal of the
// process arrives between the two, it repeats this at once. It returns [ErrTaken] if the record is
// not of the process.
func (s *Store) release(ctx context.Context, process string, timeout time.Duration, now time.Time) error {
	for conflicts := 0; ; conflicts++ {
		r, err := s.Get(ctx, timeout)
		if err != nil {
			return err
		}
		if !r.writtenBy(process) {
			return fmt.Errorf("%w: its holder is %q", ErrTaken, r.Holder())
		}
		stamps := Stamps{last: r.lease.Spec.RenewTime.Time}
		_, err = s.Write(ctx, timeout, r.released(stamps.Next(now)), r)
		if !apierrors.IsConflict(err) || conflicts == maxConflicts {
			return err
		}
	}
}

// sleepUntil waits for a reading of the ledger's clock, which may run while that of timers stands
// still.
func sleepUntil(ctx context.Context, c clock.Clock, now func() time.Duration, until time.Duration) error {
	for {
		left := until - now()
		if left <= 0 {
			return nil
		}
		timer := c.NewTimer(min(left, checkInterval))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
