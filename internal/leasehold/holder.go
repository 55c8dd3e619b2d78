package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Holder renews and releases a lease that a [Candidate] has won. Its term has begun: call Run,
// Renew or Release before its deadline. They exclude each other. The methods of Term may be called
// at any time.
type Holder struct {
	*Term
	config      Config
	store       *Store
	stamps      *lease.Stamps
	badge       *badge
	since       clock.Reading // when the term began
	writesMu    sync.Mutex    // held to change writes, and to read it outside of Run, Renew and Release
	writes      lease.WriteLog
	recheck     chan struct{} // capacity 1: the record must be read
	first       lease.Record  // the version that began the term
	vacant      time.Duration // before the term
	succeeds    bool          // the last holder has released the lease
	releaseFrom clock.Reading
	doubt       bool          // the record must be read: the outcome of the last write is unknown
	leaving     bool          // work has been told to stop
	reserved    time.Duration // before the deadline: requests are not waited for until then
	stepped     bool          // work has been told to stop, because of the deadline
	vacated     bool          // after that, nothing of the term can be carried out any more
}

func newHolder(c Config, store *Store, stamps *lease.Stamps, badge *badge, writes lease.WriteLog,
	before handover.Versions,
) *Holder {
	h := &Holder{
		Term: newTerm(c, writes.Sent()), config: c, store: store, stamps: stamps, badge: badge, since: writes.Sent(),
		writes: writes, first: writes.Standing(), recheck: make(chan struct{}, 1),
	}
	if c.NoteWrites {
		h.log = handover.NewLog(before)
	}
	c.Guard.term.Store(h.Term)
	return h
}

// written returns up to which version this term and those before it have written each resource. Only
// a guarded client's writes are known.
func (h *Holder) written() handover.Versions {
	if h.log == nil || !h.config.Guard.Installed() {
		return handover.Unknown()
	}
	return h.log.Versions()
}

// release returns the object that ends the term of r.
func (h *Holder) release(r lease.Record, stamp metav1.MicroTime) *coordinationv1.Lease {
	l := r.Release(stamp)
	if h.log == nil {
		return l
	}
	return lease.WithWritten(l, h.written())
}

// First returns the version of the record that began the term.
func (h *Holder) First() lease.Record { return h.first }

// altered returns why r, whose spec may be ours, is no longer of this term.
func (h *Holder) altered(r lease.Record) error { return h.config.Variant.WhyAltered(h.first, r) }

// Token returns the resourceVersion of the write that began the term. It grows from term to term.
func (h *Holder) Token() string { return h.first.ResourceVersion() }

// UID returns the UID of the Lease object.
func (h *Holder) UID() types.UID { return h.first.UID() }

// Transitions returns the number of earlier terms.
func (h *Holder) Transitions() int32 { return h.first.Transitions() }

// Vacant returns how long the last record was seen unchanged before this term, and whether it was a
// release.
func (h *Holder) Vacant() (d time.Duration, released bool) { return h.vacant, h.succeeds }

// Expired returns an error if the term was lost or has reached its deadline: its work must have
// ended. It returns nil while the term is held, and during and after a release.
func (h *Holder) Expired() error {
	if h.Remaining() > 0 {
		return nil
	}
	switch loss, ended := h.Ended(); {
	case loss != nil:
		return fmt.Errorf("work goes on after the end of its term: %w", loss)
	case ended: // it is being released
		return nil
	}
	return fmt.Errorf("work goes on after the end of its term: lease %s: %w", h.lease, lease.ErrDeadline)
}

// Run calls work, renews the lease until work has returned, and then releases it. Work's context
// ends with ctx, or with the term, then with the *LostError as its cause. Run returns work's error,
// unless it is that of ctx. If the term is lost, Run returns the *LostError after OnLost and work
// have returned.
func (h *Holder) Run(ctx context.Context, work func(context.Context) error) error {
	if ctx.Err() != nil { // ended during the election
		return h.end(ctx, nil)
	}
	workCtx, cancel := context.WithCancelCause(h.named(ctx))
	defer cancel(nil)
	if !h.begin(cancel) {
		defer h.DisarmKillTimer()
		return h.conclude()
	}
	returned := make(chan error, 1)
	running, stopped := context.WithCancelCause(workCtx)
	go func() {
		defer func() { stopped(context.Cause(ctx)) }() // work may return before running ends with ctx
		var err error
		defer func() { // even if work calls runtime.Goexit
			if p := recover(); p != nil {
				panic(p) // a release would come before the end of the process
			}
			returned <- err
		}()
		err = work(workCtx)
	}()

	return h.end(ctx, h.keep(ctx, running, returned))
}

// named returns the context of the term's work.
func (h *Holder) named(ctx context.Context) context.Context {
	return handover.WithLog(context.WithValue(ctx, termKey{h.config.Guard}, h.Term), h.log)
}

// end releases the lease after work has returned err, and returns the result of Run. The state of
// the term decides whether it was lost: work may return the loss of another lease.
func (h *Holder) end(ctx context.Context, err error) error {
	if h.stepped && ctx.Err() == nil || stepsDown(ctx) {
		return h.vacate(ctx, err)
	}
	released := h.Release(ctx)
	ended := err == nil || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
	if h.Lost() {
		if !ended && !errors.Is(err, context.Canceled) && !errors.Is(err, h.loss) {
			h.config.Log.Warn("work ended with an error after the lease was lost", zap.Error(err))
		}
		return released
	}
	if released != nil {
		h.config.Log.Warn("lease not released: a successor has to wait until it expires", zap.Error(released))
	}
	if ended {
		return nil
	}
	return err
}

// keep renews until work has returned, and returns its error. running ends with work or its
// context.
func (h *Holder) keep(ctx, running context.Context, returned <-chan error) error {
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx)) // work may run on after the end of ctx
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { h.watchLease(watchCtx) })
	renewal := h.newPace()
	defer renewal.Stop()
	stopping := ctx.Done()
	var tooLong, near <-chan time.Time
	look := h.config.Clock.NewTimer(checkInterval)
	defer look.Stop()
	if h.config.StepDown > 0 {
		near, h.reserved = look.C(), h.config.StepDown
	}
	for {
		select {
		case err := <-returned:
			return err
		case <-h.told: // lost: nothing to renew
			return <-returned
		case <-stopping: // renewal goes on until work has stopped
			stopping = nil
			h.reserved = 0
			switch h.leaving = true; {
			case stepsDown(ctx):
				h.stepped = true
				renewal.Stop()
			case h.config.Variant.SaysLeaving:
				renewal.Reset(0)
			}
			if h.config.ReleaseTimeout > 0 {
				timer := h.config.Clock.NewTimer(h.config.ReleaseTimeout)
				defer timer.Stop()
				tooLong = timer.C()
			}
		case <-tooLong:
			h.lose(fmt.Errorf("%w (%v)", lease.ErrReleaseTimeout, h.config.ReleaseTimeout), h.config.Identity)
		case <-near:
			switch {
			case stopping == nil:
			case h.stepDown():
				renewal.Stop() // the term is about to end: a request would be waited for
			default:
				look.Reset(min(max(h.Remaining()-h.config.StepDown, promptly), checkInterval))
			}
		case <-h.recheck:
			if h.doubt = true; h.stepped {
				continue
			}
			_ = h.settle(ctx) // OnLost reports a loss; other errors leave the doubt
		case <-renewal.C():
			err := h.Renew(running) // OnLost reports a loss; other errors are retried
			h.noteRenewal(err)
			renewal.next(err)
		}
	}
}

// noteRenewal notes how a renewal has ended. A loss to another process, and work that is not healthy, are
// no failures of requests.
func (h *Holder) noteRenewal(err error) {
	if !errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrUnhealthy) {
		h.config.Contact.Note(err)
	}
}

// pace is the timer of renewals.
type pace struct {
	clock.Timer
	holder *Holder
	pause  wait.Backoff
}

func (h *Holder) newPace() *pace {
	return &pace{h.config.Clock.NewTimer(h.untilRenewal()), h, backoff(h.config.Timing)}
}

// next sets the timer after a renewal.
func (p *pace) next(err error) {
	if err != nil {
		p.Reset(p.pause.Step())
		return
	}
	p.pause = backoff(p.holder.config.Timing)
	p.Reset(p.holder.untilRenewal())
}

// untilRenewal counts from when the last renewal was sent: a slow API server does not slow the
// pace.
func (h *Holder) untilRenewal() time.Duration {
	return h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(h.writes.Sent())
}

// renew sends a renewal. It reads the record if the outcome is unknown.
func (h *Holder) renew(ctx context.Context) error {
	if h.Remaining() == 0 {
		return h.conclude()
	}
	err := h.prolong(ctx)
	switch {
	case errors.Is(err, lease.ErrTaken):
		return h.conclude()
	case err != nil:
		h.fail(err)
	}
	return err
}

// prolong renews the record. It returns ErrTaken if the record is no longer ours.
func (h *Holder) prolong(ctx context.Context) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	return h.replace(ctx, lease.Record.Renewal)
}

// Release releases the lease. No work may be running. It waits for guarded requests, see drain, and
// then takes at most four renew intervals, even if ctx has ended. If the deadline comes before,
// nothing is released. If the term was lost, it returns the *LostError. After any other error, the
// lease is free when it has expired.
func (h *Holder) Release(ctx context.Context) error {
	if err := h.finish(); err != nil {
		h.DisarmKillTimer()
		return err
	}
	h.config.OnFinish()
	err := h.drain(ctx)
	h.cutOff()
	h.close()
	h.DisarmKillTimer() // not before: a stopped process could send when it resumes
	switch {
	case errors.Is(err, lease.ErrTaken):
		return nil
	case err != nil:
		return err
	}
	h.leaving = false // it has left
	pause := backoff(h.config.Timing)
	h.releaseFrom = h.config.Clock.Now()
	for {
		err := h.settle(ctx)
		if err == nil && h.writes.Standing().Holder() != "" {
			err = h.replace(ctx, h.release)
		}
		switch {
		case err == nil:
			h.ledger.Free() // not before: if this process dies, its supervisor goes on
			h.config.OnHolder(h.writes.Standing())
			return nil
		case errors.Is(err, lease.ErrTaken): // by a successor: nothing to release
			return nil
		}
		wait := pause.Step()
		if h.releaseTime() <= wait || stepsDown(ctx) {
			return fmt.Errorf("release: %w", err)
		}
		timer := h.config.Clock.NewTimer(wait)
		<-timer.C()
	}
}

// maxConflicts bounds how often in a row a write is repeated at once.
const maxConflicts = 5

// replace writes what next makes of the known version. If only metadata was changed meanwhile, it
// repeats this at once with the present version: with pauses, a frequent writer of metadata would
// win every time.
func (h *Holder) replace(ctx context.Context, next func(lease.Record, metav1.MicroTime) *coordinationv1.Lease) error {
	for conflicts := 0; ; conflicts++ {
		err := h.write(ctx, next(h.writes.Standing(), h.stamps.Next(h.config.Clock.Now().Wall)))
		if !apierrors.IsConflict(err) || h.doubt || conflicts == maxConflicts {
			return err
		}
	}
}

// write sends l in place of the known version. It reads the record if the outcome is unknown.
func (h *Holder) write(ctx context.Context, l *coordinationv1.Lease) error {
	sent := h.config.Clock.Now()
	h.badge.annotate(l, sent.SinceAtLeast(h.since))
	h.attempt(l, sent)
	l = h.config.Variant.Dressed(l, h.first, h.leaving)
	r, err := h.store.Write(unwaiting(ctx), h.timeout(), l, h.writes.Standing())
	if err == nil && h.confirm(r) {
		h.extend(h.writes.Sent())
	} else {
		h.doubt = true
		if settled := h.settle(ctx); settled != nil {
			return errors.Join(err, settled)
		}
	}
	switch {
	case h.writes.Sent() == sent: // at most the answer was lost
		return nil
	case err == nil: // no success: the next write would follow at once
		return fmt.Errorf("write Lease %s: the API server stored something else", h.config.Lease)
	}
	return err
}

func (h *Holder) attempt(l *coordinationv1.Lease, now clock.Reading) {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	h.writes.Record(l, now)
}

func (h *Holder) confirm(r lease.Record) bool {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	return h.altered(r) == nil && h.writes.Match(r)
}

// settle reads the record if the outcome of the last write is unknown. It returns ErrTaken if the
// record is not ours; the term is then over.
func (h *Holder) settle(ctx context.Context) error {
	if !h.doubt {
		return nil
	}
	patient, cancel := outliving(ctx)
	defer cancel()
	r, err := h.store.Get(unwaiting(patient), h.timeout())
	if err != nil {
		return err
	}
	if !h.confirm(r) {
		return h.lostTo(r)
	}
	h.doubt = false
	h.extend(h.writes.Sent())
	return nil
}

// timeout bounds one request. A renewal is not waited for past the deadline.
func (h *Holder) timeout() time.Duration {
	left := h.releaseTime()
	if h.releaseFrom == (clock.Reading{}) {
		left = h.config.Timing.Left(h.writes.Sent(), h.config.Clock.Now())
		left -= h.reserved
	}
	return min(h.config.Timing.RenewInterval(), left)
}

// releaseTime returns how long a release may still take.
func (h *Holder) releaseTime() time.Duration {
	return 4*h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(h.releaseFrom)
}

// backoff grows the pause after failures from 100 ms to half a renew interval.
func backoff(t lease.Timing) wait.Backoff {
	return wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt32,
		Cap: t.RenewInterval() / 2,
	}
}
