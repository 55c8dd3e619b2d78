package shardlease

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// DrainAnnotation on the Lease of a shard asks the sharder to drain it. The shard gets no objects,
// and lets go of those that it has, one after the other, each when the work on it has ended. Until
// then it works on what it still has. The value does not matter. Only the removal of the annotation
// ends this: it remains for a shard that restarts under its name, unless the shard was away for so
// long that the sharder has deleted its Lease (sharder.Config.GCPeriod, one hour by default).
//
//	kubectl annotate lease <shard> ring.bellwether.dev/drain=
//
// If all shards of a ring have the annotation, none is drained.
const DrainAnnotation = shardrecord.DrainAnnotation

// Drained reports whether an administrator drains the shard of this Lease. l may be nil.
func Drained(l *coordinationv1.Lease) bool {
	if l == nil {
		return false
	}
	_, drained := l.Annotations[DrainAnnotation]
	return drained
}
