package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// ReleaseOrphan empties the record with the mark of a release, if it is still one of the process.
// died is when all of its processes had ended, by the ledger's clock, which now reads. It returns
// the error of ctx, one of [lease.Orphan.FreeAt], [lease.ErrTaken] if the record is not of the process,
// or that of the last request before [lease.Orphan.GiveUpAt]: a container whose process has died is
// restarted only when its supervisor has ended.
func ReleaseOrphan(ctx context.Context, o lease.Orphan, store *Store, c clock.Clock, now func() time.Duration,
	died time.Duration,
) error {
	free, err := o.FreeAt(died)
	if err != nil {
		return err
	}
	if err := sleepUntil(ctx, c, now, free); err != nil {
		return err
	}
	end, pause, last := o.GiveUpAt(now()), backoff(o.Timing), lease.ErrTooLate
	for now() < end {
		last = store.release(ctx, o.Process, min(o.Timing.RenewInterval(), end-now()), c.Now().Wall)
		if last == nil || errors.Is(last, lease.ErrTaken) {
			return last
		}
		if err := sleepUntil(ctx, c, now, now()+pause.Step()); err != nil {
			return err
		}
	}
	return last
}

// release reads the record and empties it if the process holds the lease. If a late renewal of the
// process arrives between the two, it repeats this at once. It returns [lease.ErrTaken] if the
// record is not of the process.
func (s *Store) release(ctx context.Context, process string, timeout time.Duration, now time.Time) error {
	for conflicts := 0; ; conflicts++ {
		r, err := s.Get(ctx, timeout)
		if err != nil {
			return err
		}
		if !r.WrittenBy(process) {
			return fmt.Errorf("%w: its holder is %q", lease.ErrTaken, r.Holder())
		}
		// Somebody else may have removed the renew time.
		stamps := lease.StampsAfter(ptr.Deref(r.Lease().Spec.RenewTime, metav1.MicroTime{}).Time)
		_, err = s.Write(ctx, timeout, r.Release(stamps.Next(now)), r)
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
