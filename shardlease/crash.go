package shardlease

import (
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// Crash is what a shard's Lease records about the end of an epoch whose process died, or whose
// Lease was taken over because it was no longer renewed.
type Crash struct {
	Epoch Epoch
	// Complete means that Objects are all objects that the process worked on when it died.
	// Otherwise it may have worked on others as well, because no supervisor has recorded them, or
	// they were too many.
	Complete bool
	objects  []uint64
}

// AtWork reports whether the process is known to have worked on an object when it died.
func (c Crash) AtWork(object types.UID) bool {
	return slices.Contains(c.objects, shardrecord.DigestOf(object))
}

// CrashOf returns the last crash that a shard's Lease records. ok is false if it records no crash,
// or one that cannot be read.
func CrashOf(l *coordinationv1.Lease) (c Crash, ok bool) {
	if l == nil {
		return Crash{}, false
	}
	number, objects, found := strings.Cut(l.Annotations[shardrecord.CrashAnnotation], ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil {
		return Crash{}, false
	}
	c = Crash{Epoch: Epoch{l.UID, n}, Complete: true}
	for object := range strings.SplitSeq(objects, ",") {
		switch digest, err := strconv.ParseUint(object, 16, 64); {
		case err == nil:
			c.objects = append(c.objects, digest)
		case object != "":
			c.Complete = false
		}
	}
	return c, true
}
