package shardlease

import (
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

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
