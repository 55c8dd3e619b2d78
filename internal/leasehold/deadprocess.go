package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// ReleaseOrphan empties the record with the mark of a release, if it is still one of the process.
// died is when all of its processes had ended, by the ledger's clock, which now reads. It returns
// the error of ctx, one of [lease.Orphan.FreeAt], [lease.ErrTaken] if the record is not of the
// process, or that of the last request before [lease.Orphan.GiveUpAt], because a container whose
// process has died is restarted only when its supervisor has ended.
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
	for ; now() < end; o.Stored = (lease.Record{}) { // the outcome of that write is not known
		last = store.release(ctx, o, end-now())
		if last == nil || errors.Is(last, lease.ErrTaken) {
			return last
		}
		if err := sleepUntil(ctx, c, now, now()+pause.Step()); err != nil {
			return err
		}
	}
	return last
}

// release empties the record if the process holds the lease, even if a late renewal of the process
// arrives meanwhile. It reads the record unless the process has left a version of it, and reads it
// again if that is no longer the record. It returns [lease.ErrTaken] if the record is not of the
// process. A shard's Lease names what the process worked on.
func (s *Store) release(ctx context.Context, o lease.Orphan, d time.Duration) error {
	var known lease.Record
	if s.replaces(o) {
		known = o.Stored
	}
	return s.newSwap(ctx, d, o.Timing.RenewInterval(), !known.Exists(), change{
		next: func() (*coordinationv1.Lease, lease.Record) {
			// Another client may have removed the renew time.
			stamps := lease.StampsAfter(ptr.Deref(known.Lease().Spec.RenewTime, metav1.MicroTime{}).Time)
			l := known.Release(stamps.Next(s.clock.Now().Wall))
			shardrecord.MarkCrash(l, o.Work.Objects, o.Work.All)
			return l, known
		},
		learn: func(r lease.Record, _ clock.Reading, wrote bool) (outcome, error) {
			switch {
			case wrote, r.Released() && r.UID() == known.UID() && r.Transitions() == known.Transitions():
				return settled, nil // at most the answer was lost
			case !r.WrittenBy(o.Process):
				return settled, fmt.Errorf("%w: its holder is %q", lease.ErrTaken, r.Holder())
			case r.SameVersion(known):
				return unchanged, nil
			}
			known = r
			return changed, nil
		},
	}).wait(ctx.Done())
}

// replaces reports whether the version that a process has left may be replaced. The memory that it
// comes from may be damaged, and without a UID or a version the write would be unconditional.
func (s *Store) replaces(o lease.Orphan) bool {
	r := o.Stored
	return r.WrittenBy(o.Process) && r.UID() != "" && r.ResourceVersion() != "" &&
		r.Lease().Name == s.Name.Name && r.Lease().Namespace == s.Name.Namespace
}

// sleepUntil waits for a reading of the ledger's clock, which may run while that of timers stands
// still.
func sleepUntil(ctx context.Context, c clock.Clock, now func() time.Duration, until time.Duration) error {
	for {
		left := until - now()
		if left <= 0 {
			return nil
		}
		if !clock.SleepBy(ctx, c, min(left, checkInterval)) {
			return ctx.Err()
		}
	}
}
