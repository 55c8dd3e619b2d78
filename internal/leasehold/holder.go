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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Holder renews and releases a lease that a [Candidate] has won. Its term has begun: call [Candidate.Run],
// Renew or Release before its deadline. They exclude each other. The methods of Term may be called
// at any time.
type Holder struct {
	Term    *Term
	config  *Config
	guard   *Guard
	health  *health
	contact *kube.Contact
	store   *Store
	stamps  *lease.Stamps
	badge   *badge

	since    clock.Reading // when the term began
	writesMu sync.Mutex    // held to change writes, and to read it outside of Run, Renew and Release
	writes   lease.WriteLog
	recheck  chan struct{} // capacity 1: the record must be read
	first    lease.Record  // the version that began the term
	vacant   time.Duration // before the term
	succeeds bool          // the last holder has released the lease
	doubt    bool          // the record must be read, because the outcome of the last write is unknown
	leaving  bool          // work was asked to stop
	swap     *swap         // the renewal under way, or nil
	asked    clock.Reading // when it began
	stepped  bool          // work was asked to stop, because of the deadline
	vacated  bool          // after that, nothing of the term can be carried out any more
}

// newHolder returns the holder of the term that the candidate's last write has begun.
func (c *Candidate) newHolder() *Holder {
	sent := c.writes.Sent()
	h := &Holder{
		Term: newTerm(*c.config, c.Guard, sent), config: c.config, guard: c.Guard, health: c.health, contact: c.Contact,
		store: c.store, stamps: &c.stamps, badge: c.badge,
		since: sent, writes: c.writes, first: c.writes.Standing(), recheck: make(chan struct{}, 1),
	}
	if c.config.NoteWrites {
		h.Term.log = handover.NewLog(c.writtenUntil(c.prior))
	}
	h.Term.ledger.Stored(h.first)
	c.Guard.term.Store(h.Term)
	return h
}

// written returns up to which version this term and those before it have written each resource. It
// knows only a guarded client's writes.
func (h *Holder) written() handover.Versions {
	if h.Term.log == nil || !h.guard.Installed() {
		return handover.Unknown()
	}
	return h.Term.log.Versions()
}

// release returns the object that ends the term of r.
func (h *Holder) release(r lease.Record, stamp metav1.MicroTime) *coordinationv1.Lease {
	l := r.Release(stamp)
	if h.Term.log == nil {
		return l
	}
	return lease.WithWritten(l, h.written())
}

// First returns the version of the record that began the term. Its resourceVersion grows from term to
// term.
func (h *Holder) First() lease.Record { return h.first }

// altered returns why r, whose spec may be ours, is no longer of this term.
func (h *Holder) altered(r lease.Record) error { return h.config.Variant.whyAltered(h.first, r) }

// Vacant returns how long the last record was seen unchanged before this term, and whether it was a
// release.
func (h *Holder) Vacant() (d time.Duration, released bool) { return h.vacant, h.succeeds }

// Expired returns an error if the term was lost or has reached its deadline, so that its work must
// have ended. It returns nil while the term is held, and during and after a release.
func (h *Holder) Expired() error {
	if h.Term.Remaining() > 0 {
		return nil
	}
	switch loss, ended := h.Term.Ended(); {
	case loss != nil:
		return fmt.Errorf("work continues after the end of its term: %w", loss)
	case ended: // it is being released
		return nil
	}
	return fmt.Errorf("work continues after the end of its term: lease %s: %w", h.Term.lease, lease.ErrDeadline)
}

// run calls work, renews the lease until work has returned, and then releases it. Work's context
// ends with ctx, or with the term, then with the *LostError as its cause. run returns work's error,
// unless it is that of ctx. If the term is lost, run returns the *LostError after OnLost and work
// have returned.
func (h *Holder) run(ctx context.Context, work func(context.Context) error) error {
	if ctx.Err() != nil { // ended during the election
		return h.end(ctx, nil)
	}
	workCtx, cancel := context.WithCancelCause(h.named(ctx))
	defer cancel(nil)
	if !h.Term.begin(cancel) {
		defer h.Term.DisarmKillTimer()
		return h.Term.conclude()
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
	return handover.WithLog(h.Term.named(ctx, h.guard), h.Term.log)
}

// end releases the lease after work has returned err, and returns the result of Run. The state of
// the term decides whether it was lost: work may return the loss of another lease.
func (h *Holder) end(ctx context.Context, err error) error {
	if h.stepped && ctx.Err() == nil || stepsDown(ctx) {
		return h.vacate(ctx, err)
	}
	released := h.Release(ctx)
	ended := err == nil || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
	if h.Term.Lost() {
		if !ended && !errors.Is(err, context.Canceled) && !errors.Is(err, h.Term.loss) {
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
	defer renewal.timer.Stop()
	stopping := ctx.Done()
	var tooLong, near <-chan time.Time
	look := h.config.Clock.NewTimer(checkInterval)
	defer look.Stop()
	if h.config.StepDown > 0 {
		near = look.C()
	}
	for {
		select {
		case err := <-returned:
			return err
		case <-h.Term.told: // lost: nothing to renew
			h.abandon()
			return <-returned
		case <-stopping: // renewal continues until work has stopped
			stopping = nil
			switch h.leaving = true; {
			case stepsDown(ctx):
				h.stepped = true
				renewal.timer.Stop()
			case h.config.Variant.SaysLeaving:
				renewal.hasten()
			}
			if h.config.ReleaseTimeout > 0 {
				timer := h.config.Clock.NewTimer(h.config.ReleaseTimeout)
				defer timer.Stop()
				tooLong = timer.C()
			}
		case <-tooLong:
			h.Term.lose(fmt.Errorf("%w (%v)", lease.ErrReleaseTimeout, h.config.ReleaseTimeout), h.config.Identity)
		case <-near:
			switch {
			case stopping == nil:
			case h.stepDown():
				h.abandon()
				renewal.timer.Stop() // the term is about to end: a request would be waited for
			default:
				look.Reset(min(max(h.Term.Remaining()-h.config.StepDown, promptly), checkInterval))
			}
		case <-h.recheck:
			switch h.doubt = true; {
			case h.stepped:
			case h.swap != nil:
				h.swap.read()
			default:
				_ = h.settle(ctx) // OnLost reports a loss; other errors leave the doubt
			}
		case <-h.config.Hasten:
			if !h.leaving {
				renewal.hasten()
			}
		case <-renewal.timer.C():
			if over, err := h.beginRenewal(running); over {
				h.noteRenewal(err)
				renewal.next(err)
			}
		case a := <-h.swap.answered():
			if over, err := h.swap.receive(a); over {
				err = h.endRenewal(err) // OnLost reports a loss; other errors are retried
				h.noteRenewal(err)
				renewal.next(err)
			}
		case <-h.swap.due():
			h.swap.again()
		}
	}
}

// noteRenewal notes how a renewal has ended. A loss to another process, and work that is not
// healthy, do not count as failed requests.
func (h *Holder) noteRenewal(err error) {
	if !errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrUnhealthy) {
		h.contact.Note(err)
	}
}

// join waits for the renewal under way, at most for a renew interval, and returns its error.
func (h *Holder) join() error {
	ended := make(chan struct{})
	close(ended)
	defer func() { h.swap = nil }()
	return h.swap.wait(ended)
}

// abandon gives up the renewal under way.
func (h *Holder) abandon() {
	if h.swap != nil {
		h.swap.end()
		h.swap = nil
	}
}

// pace is the timer of renewals. It does not run during one.
type pace struct {
	timer  clock.Timer
	holder *Holder
	pause  wait.Backoff
	hasty  bool // the next renewal follows at once
}

func (h *Holder) newPace() *pace {
	return &pace{timer: h.config.Clock.NewTimer(h.untilRenewal()), holder: h, pause: backoff(h.config.Timing)}
}

// hasten makes a renewal follow at once, or after the one under way.
func (p *pace) hasten() {
	if p.hasty = p.holder.swap != nil; !p.hasty {
		p.timer.Reset(0)
	}
}

// next sets the timer after a renewal.
func (p *pace) next(err error) {
	if err != nil {
		p.timer.Reset(p.pause.Step())
		return
	}
	p.pause = backoff(p.holder.config.Timing)
	if p.hasty {
		p.hasty = false
		p.timer.Reset(0)
		return
	}
	p.timer.Reset(p.holder.untilRenewal())
}

// untilRenewal counts from when the last renewal was sent, so that a slow API server does not slow
// the pace.
func (h *Holder) untilRenewal() time.Duration {
	return h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(h.writes.Sent())
}

// renewal is the change that extends the term.
func (h *Holder) renewal() change {
	return change{
		next: func() (*coordinationv1.Lease, lease.Record) { return h.record(lease.Record.Renewal) },
		learn: func(r lease.Record, asked clock.Reading, wrote bool) (outcome, error) {
			last := h.writes.Sent()
			o, err := h.learn(r, asked, wrote)
			if o == changed && (wrote || h.writes.Sent() != last) { // at most the answer was lost
				return settled, nil
			}
			return o, err
		},
		late: h.Term.fail,
	}
}

// Release releases the lease. No work may be running. It waits for guarded requests, see drain, and
// then takes at most four renew intervals, even if ctx has ended. If the deadline comes before,
// nothing is released. If the term was lost, it returns the *LostError. After any other error, the
// lease is free when it has expired.
func (h *Holder) Release(ctx context.Context) error {
	if h.swap != nil {
		_ = h.endRenewal(h.join()) // OnRenewal or OnLost has the error
	}
	switch lost, err := h.finish(ctx); {
	case lost != nil:
		return lost
	case errors.Is(err, lease.ErrTaken):
		return nil
	case err != nil:
		return err
	}
	h.leaving = false // it has left
	pause := backoff(h.config.Timing)
	for begin := h.config.Clock.Now(); ; {
		err := h.newSwap(ctx, h.releaseTime(begin), h.releasing()).wait(nil)
		switch {
		case err == nil:
			h.Term.ledger.Free() // not before: if this process dies, its supervisor continues
			h.config.OnHolder(h.writes.Standing())
			return nil
		case errors.Is(err, lease.ErrTaken): // by a successor: nothing to release
			return nil
		}
		wait := pause.Step()
		if h.releaseTime(begin) <= wait || stepsDown(ctx) {
			return fmt.Errorf("release: %w", err)
		}
		timer := h.config.Clock.NewTimer(wait)
		<-timer.C()
	}
}

// finish ends the term, after its work has ended, and waits for guarded requests, see drain. lost is
// the loss if that came first.
func (h *Holder) finish(ctx context.Context) (lost, drained error) {
	if lost = h.Term.finish(); lost == nil {
		h.config.OnFinish()
		drained = h.drain(ctx)
		h.cutOff()
		h.Term.close()
	}
	h.Term.DisarmKillTimer() // not before: a stopped process could send when it resumes
	return lost, drained
}

// releasing is the change that ends the term.
func (h *Holder) releasing() change {
	return change{
		next: func() (*coordinationv1.Lease, lease.Record) { return h.record(h.release) },
		learn: func(r lease.Record, asked clock.Reading, wrote bool) (outcome, error) {
			o, err := h.learn(r, asked, wrote)
			if o == changed && r.Holder() == "" {
				return settled, nil
			}
			return o, err
		},
	}
}

// newSwap begins a swap of the record, which takes at most d.
func (h *Holder) newSwap(ctx context.Context, d time.Duration, c change) *swap {
	interval := h.config.Timing.RenewInterval()
	return h.store.newSwap(unwaiting(ctx, interval), d, interval, h.doubt, c)
}

// releaseTime returns how long a release that began then may still take.
func (h *Holder) releaseTime(begin clock.Reading) time.Duration {
	return 4*h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(begin)
}

// maxConflicts bounds how often in a row a write is repeated at once.
const maxConflicts = 5

// record returns what next makes of the known version, and notes that it is about to be sent.
func (h *Holder) record(next func(lease.Record, metav1.MicroTime) *coordinationv1.Lease) (
	*coordinationv1.Lease, lease.Record,
) {
	sent, base := h.config.Clock.Now(), h.writes.Standing()
	l := next(base, h.stamps.Next(sent.Wall))
	h.badge.annotate(l, sent.SinceAtLeast(h.since))
	h.doubt = true
	h.writesMu.Lock()
	h.writes.Record(l, sent)
	h.writesMu.Unlock()
	return h.config.Variant.dressed(l, h.first, h.leaving), base
}

// learn handles a version of the record. If it is not ours, the term is over, and learn returns
// ErrTaken, but an answer to a write is believed only if it is ours.
func (h *Holder) learn(r lease.Record, asked clock.Reading, wrote bool) (outcome, error) {
	known := h.writes.Standing()
	if !h.confirm(r) {
		if wrote {
			return unchanged, nil
		}
		return settled, h.lostTo(r)
	}
	h.doubt = false
	h.Term.extend(h.writes.Sent())
	if r.SameVersion(known) {
		h.writesMu.Lock()
		defer h.writesMu.Unlock()
		h.writes.Unstored(asked)
		return unchanged, nil
	}
	return changed, nil
}

// confirm reports whether r is a version of this term's record.
func (h *Holder) confirm(r lease.Record) bool {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	ours := h.altered(r) == nil && h.writes.Match(r)
	if ours {
		h.Term.ledger.Stored(r)
	}
	return ours
}

// settle reads the record if the outcome of the last write is unknown. It returns ErrTaken if the
// record is not ours; the term is then over.
func (h *Holder) settle(ctx context.Context) error {
	if !h.doubt {
		return nil
	}
	patient, cancel := outliving(ctx)
	defer cancel()
	asked := h.config.Clock.Now()
	r, err := h.store.Get(unwaiting(patient, h.config.Timing.RenewInterval()),
		min(h.config.Timing.RenewInterval(), h.left()))
	if err != nil {
		return err
	}
	_, err = h.learn(r, asked, false)
	return err
}

// left returns how long the term may last without a renewal, even during its release.
func (h *Holder) left() time.Duration {
	return h.config.Timing.Left(h.writes.Sent(), h.config.Clock.Now())
}

// backoff grows the pause after failures from 100 ms to half a renew interval.
func backoff(t lease.Timing) wait.Backoff {
	return wait.Backoff{
		Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt32,
		Cap: t.RenewInterval() / 2,
	}
}
