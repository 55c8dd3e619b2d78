package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// swap is a write of a record in place of the known version. An API server, a network or an
// admission webhook may not answer for seconds, and may then answer or not, so the write is not
// given up: after a renew interval without an answer the record is read on another connection and,
// if it is unchanged, the write is sent again beside those without an answer. All of them are
// conditional on one version, so that at most one is stored. The intervals shrink as time runs out.
//
// It is for one goroutine, which passes what comes from answered to receive, and calls again when due.
type swap struct {
	store    *Store
	change   change
	ctx      context.Context //nolint:containedctx // of its requests
	cancel   context.CancelFunc
	begun    clock.Reading
	duration time.Duration // from then, at most
	interval time.Duration // until the first repetition
	answers  chan reply
	timer    clock.Timer

	flying    int   // requests without an answer
	reads     int   // of these, reads
	writes    int   // that were sent
	moved     int   // of these, before another version became known; -1 if that never happened
	silent    int   // intervals without an end
	conflicts int   // in a row
	failed    error // why the last write that had an answer was not stored; if nil, repeat it
	unread    error // why the last read has failed
}

// change defines what a swap does.
type change struct {
	// next records and returns the next write in place of base.
	next func() (l *coordinationv1.Lease, base lease.Record)
	// learn handles a version that was read, or that a write has stored, after the time asked.
	learn func(r lease.Record, asked clock.Reading, wrote bool) (outcome, error)
	// late gets the reason when there is no answer yet. It may be nil.
	late func(error)
}

// outcome is what a version means to a swap.
type outcome int

const (
	unchanged outcome = iota // the known version: nothing was stored before it was asked for
	changed                  // another version of the same term, which can be replaced
	settled                  // the swap has ended
)

// reply is the reply to one request of a swap.
type reply struct {
	verb   string
	asked  clock.Reading
	writes int // that were sent before
	lease  *coordinationv1.Lease
	err    error
}

// roomy is more than the requests of a swap. If its goroutine ends by runtime.Goexit, as that of a
// callback may, the others still end.
const roomy = 100

// briefest is the shortest time between two repetitions.
const briefest = 100 * time.Millisecond

// newSwap begins a swap that takes at most d, with a read if read is set. The end of ctx does not
// end it, unless another lease steps down, because an abandoned write may begin an unknown term.
func (s *Store) newSwap(ctx context.Context, d, interval time.Duration, read bool, c change) *swap {
	d = max(0, d)
	w := &swap{
		store: s, change: c, begun: s.clock.Now(), duration: d, interval: interval, answers: make(chan reply, roomy),
		moved: -1,
	}
	ctx, release := outliving(ctx)
	ctx, cancel := clock.WithTimeout(own(ctx), s.clock, d)
	w.ctx, w.cancel = ctx, func() {
		cancel()
		release()
	}
	w.timer = s.clock.NewTimer(w.pause())
	if read {
		w.read()
	} else {
		w.write()
	}
	return w
}

// answered returns the answers of a swap, or nil without one.
func (w *swap) answered() <-chan reply {
	if w == nil {
		return nil
	}
	return w.answers
}

// due returns the timer of the next call of again, or nil without a swap.
func (w *swap) due() <-chan time.Time {
	if w == nil {
		return nil
	}
	return w.timer.C()
}

// wait runs the swap to its end, which comes within an interval once the channel is closed.
func (w *swap) wait(ended <-chan struct{}) error {
	for {
		select {
		case a := <-w.answers:
			if done, err := w.receive(a); done {
				return err
			}
		case <-w.timer.C():
			w.again()
		case <-ended:
			ended = nil
			defer w.store.clock.AfterFunc(w.interval, w.cancel).Stop()
		}
	}
}

// pause is the time until the next repetition.
func (w *swap) pause() time.Duration {
	left := w.duration - w.store.clock.Now().SinceAtMost(w.begun)
	return max(briefest, min(w.interval, left/3))
}

func (w *swap) read() {
	w.reads++
	w.send("get", w.store.get)
}

func (w *swap) write() {
	l, base := w.change.next()
	verb, request := w.store.replacing(l, base)
	w.send(verb, request)
	w.writes++
}

func (w *swap) send(verb string, request func(context.Context) (*coordinationv1.Lease, error)) {
	w.flying++
	a := reply{verb: verb, asked: w.store.clock.Now(), writes: w.writes}
	go func() {
		a.lease, a.err = w.store.ask(w.ctx, verb, request)
		w.answers <- a
	}()
}

// again tries once more beside requests without an answer.
func (w *swap) again() {
	silence := fmt.Errorf("no answer within %v", w.store.clock.Now().SinceAtLeast(w.begun).Round(time.Millisecond))
	if w.change.late != nil {
		w.change.late(silence)
	}
	if w.silent++; w.silent == 2 {
		w.store.log.Warn("no answer to a write of the Lease, which is being repeated", zap.Error(silence),
			zap.String("possible cause", w.suspect()))
	}
	w.failed = nil
	w.read()
	w.timer.Reset(w.pause())
}

// suspect returns the possible cause. Only writes pass admission.
func (w *swap) suspect() string {
	if w.reads == 0 {
		return "an admission webhook that matches Leases, because reads are answered"
	}
	return "the API server, the network, or a proxy between them"
}

// receive handles an answer. It reports whether the swap has ended, and why it has failed; none of
// its requests is then under way in this process.
func (w *swap) receive(a reply) (done bool, err error) {
	w.flying--
	wrote := a.verb != "get"
	if !wrote {
		w.reads--
	}
	r, err := w.store.note(w.ctx, a.verb, a.lease, a.err)
	switch {
	case err != nil && wrote:
		if !isLostRace(err) || w.conflicts == maxConflicts {
			w.failed = err
		} else {
			w.conflicts++ // perhaps only with metadata: with pauses, a frequent writer of that would always win
		}
		w.check()
	case err != nil:
		w.unread = err
	case !wrote && a.writes <= w.moved: // it may be older than what is known
		w.check()
	default:
		o, err := w.change.learn(r, a.asked, wrote)
		switch {
		case o == settled:
			w.end()
			return true, err
		case wrote:
			w.failed = fmt.Errorf("write Lease %s: the API server stored something else", w.store.Name)
			w.check()
		case o == changed:
			w.moved = w.writes
			w.write()
		case a.writes == w.writes && w.failed == nil:
			w.write()
		}
	}
	if w.flying > 0 {
		return false, nil
	}
	w.end()
	return true, errors.Join(w.failed, w.unread)
}

// check reads the record, because the outcome of a write is unknown, unless the time is over.
func (w *swap) check() {
	if w.ctx.Err() == nil {
		w.read()
	}
}

// end cancels what is under way, and waits for it.
func (w *swap) end() {
	w.timer.Stop()
	w.cancel()
	for ; w.flying > 0; w.flying-- {
		<-w.answers
	}
}
