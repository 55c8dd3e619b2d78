package shardlease

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// IdleWhile marks the Lease as that of an idle shard for as long as idle, which is called at each
// write of the Lease, returns true. The sharder gives no objects to such a shard; see [Idle]. Call
// the returned function when the result of idle has changed, so that the Lease is written soon.
// Package shard uses IdleWhile, and a second call replaces the first. idle is called from any
// goroutine and must return quickly.
func (l *Lease) IdleWhile(idle func() bool) (changed func()) {
	l.idle.Store(&idle)
	return func() {
		select {
		case l.hasten <- struct{}{}:
		default:
		}
	}
}

func (l *Lease) isIdle() bool {
	idle := l.idle.Load()
	return idle != nil && (*idle)()
}

// Idle reports whether the shard of this Lease is idle: its process holds the Lease, and nothing in it
// works on objects. The sharder does not count such a shard as a member of the ring. l may be nil.
func Idle(l *coordinationv1.Lease) bool {
	if l == nil {
		return false
	}
	_, idle := l.Annotations[shardrecord.IdleAnnotation]
	return idle
}
