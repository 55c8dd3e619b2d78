package shardlease

import (
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// Hooks are called by a [Lease] on changes. Each may be nil. They are called synchronously from the
// goroutine of Run, one at a time, so a hook that blocks also blocks renewals, which loses the
// lease at the deadline. A loss is reported to OnLost.
type Hooks struct {
	// OnHeld is called for each term, before work.
	OnHeld func(Epoch)

	// OnReleased is called for each term that was not lost, after the work has ended and the lease
	// was released, or the attempt has failed, or the work was asked to end by StepDown.
	OnReleased func(Epoch)

	// OnWaiting is called once for each holder whose release or expiry Run must wait for, and once
	// more if that holder is seen to renew.
	OnWaiting func(HolderInfo)

	// OnRenewal is called after each attempt to renew, with the time that its requests took. err is
	// nil if the deadline has moved.
	OnRenewal func(latency time.Duration, err error)

	// OnFailing is called while Run can neither follow, take nor renew the Lease: after each failed
	// attempt with the time since the first one and the error, and with 0 and nil once an attempt
	// has succeeded or Run ends. The rules are those of package leaderelection.
	OnFailing func(lasted time.Duration, err error)
}

func (h Hooks) held(e Epoch) {
	if h.OnHeld != nil {
		h.OnHeld(e)
	}
}

func (h Hooks) released(e Epoch) {
	if h.OnReleased != nil {
		h.OnReleased(e)
	}
}

func (h Hooks) waiting(s HolderInfo) {
	if h.OnWaiting != nil {
		h.OnWaiting(s)
	}
}

func (h Hooks) renewed(latency time.Duration, err error) {
	if h.OnRenewal != nil {
		h.OnRenewal(latency, err)
	}
}

// HolderInfo describes the holder of a lease that a shard waits for.
type HolderInfo struct {
	// Holder is the shard's own identity, of another or an earlier process, or [Sharder], or
	// another identity. It is empty if the record was emptied or deleted without the mark of a
	// release.
	Holder string
	// PodUID of the holder, if it has set one.
	PodUID string
	// Alive is set when the holder was seen to renew. If Holder is the shard's own identity, two
	// processes have it.
	Alive bool
	// Wait is how long the record must stay unchanged from now until it may be taken over.
	Wait time.Duration
}

// waiting is what was reported about a holder.
type waiting struct {
	seen lease.Record
	told HolderInfo
	any  bool
}

// wait reports the holder that the shard waits for: once, and once more when it is seen to renew.
func (l *Lease) wait(r lease.Record, wait time.Duration) {
	w := &l.waiting
	s := HolderInfo{Holder: r.Holder()}
	if r.Exists() {
		s.PodUID = r.Lease().Annotations[shardrecord.IncarnationAnnotation]
	}
	s.Alive = r.SameTerm(w.seen) && (!r.SameRenewal(w.seen) || w.told.Alive)
	w.seen = r
	if w.any && s == w.told {
		return
	}
	w.told, w.any = s, true
	s.Wait = wait
	l.config.Hooks.waiting(s)
	log, message := l.config.Logger.Info, "waiting for the lease, which was not released"
	switch {
	case s.Holder == l.config.Identity && s.Alive:
		log, message = l.config.Logger.Warn, "another process of the same identity holds the lease: only one of them "+
			"works"
	case s.Holder == Sharder:
		message = "waiting for the lease, which the sharder has taken"
	case s.Holder != "" && s.Holder != l.config.Identity:
		log, message = l.config.Logger.Warn, "another process holds the lease"
	}
	log(message, zap.String("holder", s.Holder), zap.String("incarnation", s.PodUID), zap.Duration("wait", wait))
}
