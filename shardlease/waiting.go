package shardlease

import (
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// HolderInfo is who holds the lease of a shard that waits for it.
type HolderInfo struct {
	// Holder is the shard's own identity (another process, or an earlier one), or [Sharder], or
	// somebody else's; empty if somebody emptied or deleted the record without marking that work
	// had ended.
	Holder string
	// Incarnation of the holder, empty if it gave none.
	Incarnation string
	// Alive says that the holder was seen to renew: if it is of the shard's own identity, two
	// processes have one identity.
	Alive bool
	// Wait is for how long the record has to stand unchanged from now until it may be taken.
	Wait time.Duration
}

// waiting is what was told of a holder.
type waiting struct {
	seen lease.Record
	told HolderInfo
	any  bool
}

// wait tells whom the shard waits for, once for each, and once more when that turns out to be
// alive.
func (l *Lease) wait(r lease.Record, wait time.Duration) {
	w := &l.waiting
	s := HolderInfo{Holder: r.Holder()}
	if r.Exists() {
		s.Incarnation = r.Lease().Annotations[IncarnationAnnotation]
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
		log, message = l.config.Logger.Warn, "somebody else holds the lease"
	}
	log(message, zap.String("holder", s.Holder), zap.String("incarnation", s.Incarnation), zap.Duration("wait", wait))
}
