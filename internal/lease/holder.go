package lease

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
)

// Holder renews and releases a lease that a [Candidate] has won. Its term runs from then on: unless Run, Renew or Release
// follow in time, the deadline ends it. Run, Renew and Release exclude each other; the methods of Term may be called
// at any time.
type Holder struct {
	*Term
	config      Config
	store       *Store
	stamps      *Stamps
	writesMu    sync.Mutex // held to change claim, and to read it outside of Run, Renew and Release
	writes      WriteLog
	recheck     chan struct{} // capacity 1: the record has to be read
	first       Record        // the version that began the term
	vacant      time.Duration // before it
	succeeds    bool          // a holder that has released the lease
	releaseFrom clock.Reading
	doubt       bool // the outcome of the last write is unknown until the record has been read
	leaving     bool // work has been told to stop
}

func newHolder(c Config, store *Store, stamps *Stamps, writes WriteLog) *Holder {
	h := &Holder{
		Term: newTerm(c, writes.sent), config: c, store: store, stamps: stamps, writes: writes, first: writes.record,
		recheck: make(chan struct{}, 1),
	}
	c.Guard.term.Store(h.Term)
	return h
}

// First is the version of the record that began the term.
func (h *Holder) First() Record { return h.first }

// altered says why r is not of the term any more, although its spec may be.
func (h *Holder) altered(r Record) error { return h.config.Variant.altered(h.first, r) }

// Token is the resourceVersion of the write that began the term. It grows from term to term.
func (h *Holder) Token() string { return h.first.ResourceVersion() }

// UID is that of the Lease object.
func (h *Holder) UID() types.UID { return h.first.UID() }

// Transitions is how many terms came before this one.
func (h *Holder) Transitions() int32 { return h.first.Transitions() }

// Vacant is for how long the record of the last term was seen to stand before this one, and whether it was a release.
func (h *Holder) Vacant() (d time.Duration, released bool) { return h.vacant, h.succeeds }

// Run calls work, renews the lease until work has returned, and then releases it. Work's context ends with ctx, or when the
// term is lost, with the *LostError as its cause. Run returns what work returned, without the error of a context that
// ended with ctx. If the term is lost it returns the *LostError, after OnLost and work have returned.
func (h *Holder) Run(ctx context.Context, work func(context.Context) error) error {
	if ctx.Err() != nil { // ended while the lease was being won
		return h.end(ctx, nil)
	}
	workCtx, cancel := context.WithCancelCause(context.WithValue(ctx, termKey{h.config.Guard}, h.Term))
	defer cancel(nil)
	if !h.begin(cancel) {
		defer h.DisarmKillTimer()
		return h.conclude()
	}
	returned := make(chan error, 1)
	running, stopped := context.WithCancel(workCtx)
	go func() {
		defer stopped()
		var err error
		defer func() { returned <- err }() // also when work ends by runtime.Goexit
		err = work(workCtx)
	}()

	return h.end(ctx, h.keep(ctx, running, returned))
}

// end releases the lease, work having returned err, and returns what Run does. Whether the term was lost is its own state: work
// may return the cause of its context, or the loss of another lease.
func (h *Holder) end(ctx context.Context, err error) error {
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

// keep renews until work has returned, and returns its error. running ends when work is told to stop, or has returned.
func (h *Holder) keep(ctx, running context.Context, returned <-chan error) error {
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx)) // work may need its time after the end of ctx
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { h.watchLease(watchCtx) })
	renewal := h.newPace()
	defer renewal.Stop()
	stopping := ctx.Done()
	var tooLong <-chan time.Time
	for {
		select {
		case err := <-returned:
			return err
		case <-h.told: // nothing more to renew
			return <-returned
		case <-stopping: // work has been told to stop; renewal goes on until it has
			stopping = nil
			if h.leaving = true; h.config.Variant.SaysLeaving {
				renewal.Reset(0)
			}
			if h.config.ReleaseTimeout > 0 {
				timer := h.config.Clock.NewTimer(h.config.ReleaseTimeout)
				defer timer.Stop()
				tooLong = timer.C()
			}
		case <-tooLong:
			h.lose(fmt.Errorf("%w (%v)", ErrReleaseTimeout, h.config.ReleaseTimeout), h.config.Identity)
		case <-h.recheck:
			h.doubt = true
			_ = h.settle(ctx) // a loss is told, and doubt remains until the next renewal
		case <-renewal.C():
			renewal.next(h.Renew(running)) // a loss is told, anything else will be tried again
		}
	}
}

// pace says when to renew.
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

// untilRenewal counts from when the last one was sent, so that a slow API server does not slow the pace.
func (h *Holder) untilRenewal() time.Duration {
	return h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(h.writes.sent)
}

// renew sends a renewal. If the answer does not tell whether it stands, it reads the record.
func (h *Holder) renew(ctx context.Context) error {
	if h.Remaining() == 0 {
		return h.conclude()
	}
	err := h.prolong(ctx)
	switch {
	case errors.Is(err, ErrTaken):
		return h.conclude()
	case err != nil:
		h.fail(err)
	}
	return err
}

// prolong renews the record. ErrTaken means that it is not ours any more.
func (h *Holder) prolong(ctx context.Context) error {
	if err := h.settle(ctx); err != nil {
		return err
	}
	return h.replace(ctx, Record.renewed)
}

// Release gives the lease up; no work may be running. It waits for requests under the guard, see drain,
// and takes at most four renew intervals after that, whether or not ctx has ended. If the deadline comes
// while such a request is waited for, nothing is released.
// If the term was lost before, it returns the *LostError; after any other error the lease is free when it has expired.
func (h *Holder) Release(ctx context.Context) error {
	if err := h.finish(); err != nil {
		h.DisarmKillTimer()
		return err
	}
	h.config.OnFinish()
	err := h.drain(ctx)
	h.cutOff()
	h.close()
	h.DisarmKillTimer() // not before, or a process that is stopped meanwhile could go on sending when it is woken
	switch {
	case errors.Is(err, ErrTaken):
		return nil
	case err != nil:
		return err
	}
	h.leaving = false // it has left
	pause := backoff(h.config.Timing)
	h.releaseFrom = h.config.Clock.Now()
	for {
		err := h.settle(ctx)
		if err == nil && h.writes.record.Holder() != "" {
			err = h.replace(ctx, Record.released)
		}
		switch {
		case err == nil:
			h.config.OnHolder(h.writes.record)
			return nil
		case errors.Is(err, ErrTaken): // by a successor, so there is nothing to give up
			return nil
		}
		wait := pause.Step()
		if h.releaseTime() <= wait {
			return fmt.Errorf("release: %w", err)
		}
		timer := h.config.Clock.NewTimer(wait)
		<-timer.C()
	}
}

var errNotDrained = errors.New("at the deadline a guarded request could still have been carried out")

// drain renews until the requests under the guard cannot be carried out any more: a successor may begin as
// soon as the lease is released. What has no answer after a margin is cut off. A request that failed
// without an answer may still be carried out until the API server gives it up, and a margin is added to
// that. It returns errNotDrained if the deadline comes first, and ErrTaken if the lease is somebody else's.
func (h *Holder) drain(ctx context.Context) error {
	c, timing := h.config.Clock, h.config.Timing
	begin, renewal := c.Now(), h.newPace()
	defer renewal.Stop()
	for {
		now := c.Now()
		left := timing.Left(h.writes.sent, now)
		rest, landed := h.open.rest(now, timing.Margin)
		if landed != nil {
			rest = timing.Margin - now.SinceAtLeast(begin)
		}
		switch {
		case left <= 0:
			return errNotDrained
		case rest <= 0 && landed == nil:
			return nil
		case rest <= 0:
			h.cutOff() // so that they are abandoned
			continue
		}
		look := c.NewTimer(min(rest, left, checkInterval)) // the deadline may come sooner than a timer counts
		select {
		case <-landed:
		case <-look.C():
		case <-renewal.C():
			err := h.prolong(ctx)
			if errors.Is(err, ErrTaken) {
				return err
			}
			renewal.next(err)
		}
		look.Stop()
	}
}

// cutOff ends what is under way under the guard: answers that are being read, too, and upgraded connections.
func (h *Holder) cutOff() {
	if n := h.cancelRequests(); n > 0 {
		h.config.Log.Warn("requests had no answer when the term ended: their outcome is unknown", zap.Int("requests", n))
	}
}

// maxConflicts is how often in a row a write is sent again at once.
const maxConflicts = 5

// replace writes what next makes of the standing version. If somebody has changed nothing but metadata
// meanwhile, it does so again with the version that stands now: pauses between the attempts would let a
// frequent writer win every time.
func (h *Holder) replace(ctx context.Context, next func(Record, metav1.MicroTime) *coordinationv1.Lease) error {
	for conflicts := 0; ; conflicts++ {
		err := h.write(ctx, next(h.writes.record, h.stamps.Next(h.config.Clock.Now().Wall)))
		if !apierrors.IsConflict(err) || h.doubt || conflicts == maxConflicts {
			return err
		}
	}
}

// write sends l in place of the standing version, and reads the record if it has to in order to know the outcome.
func (h *Holder) write(ctx context.Context, l *coordinationv1.Lease) error {
	sent := h.config.Clock.Now()
	h.attempt(l, sent)
	r, err := h.store.Write(ctx, h.timeout(), h.config.Variant.dress(l, h.first, h.leaving), h.writes.record)
	if err == nil && h.confirm(r) {
		h.extend(h.writes.sent)
	} else {
		h.doubt = true
		if settled := h.settle(ctx); settled != nil {
			return errors.Join(err, settled)
		}
	}
	switch {
	case h.writes.sent == sent: // at most the answer was lost
		return nil
	case err == nil: // or the next write would follow at once, and a lease that is not released pass for released
		return fmt.Errorf("write Lease %s: the API server stored something else", h.config.Lease)
	}
	return err
}

func (h *Holder) attempt(l *coordinationv1.Lease, now clock.Reading) {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	h.writes.Record(l, now)
}

func (h *Holder) confirm(r Record) bool {
	h.writesMu.Lock()
	defer h.writesMu.Unlock()
	return h.altered(r) == nil && h.writes.Match(r)
}

// settle reads the record if the outcome of the last write is in doubt. ErrTaken means that the record is not ours, and
// the term over.
func (h *Holder) settle(ctx context.Context) error {
	if !h.doubt {
		return nil
	}
	r, err := h.store.Get(context.WithoutCancel(ctx), h.timeout())
	if err != nil {
		return err
	}
	if !h.confirm(r) {
		return h.lostTo(r)
	}
	h.doubt = false
	h.extend(h.writes.sent)
	return nil
}

// timeout is that of one request: no renewal is worth waiting for past the deadline.
func (h *Holder) timeout() time.Duration {
	left := h.releaseTime()
	if h.releaseFrom == (clock.Reading{}) {
		left = h.config.Timing.Left(h.writes.sent, h.config.Clock.Now())
	}
	return min(h.config.Timing.RenewInterval(), left)
}

// releaseTime is how long a release may still take.
func (h *Holder) releaseTime() time.Duration {
	return 4*h.config.Timing.RenewInterval() - h.config.Clock.Now().SinceAtMost(h.releaseFrom)
}

// backoff paces attempts after a failure, from 100 ms to half a renew interval.
func backoff(t Timing) wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: math.MaxInt32, Cap: t.RenewInterval() / 2}
}
