package shardrecord

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DigestOf identifies an object in a record of a crash. It is never zero.
func DigestOf(object types.UID) uint64 { return max(1, xxhash.Sum64String(string(object))) }

// MarkCrash records in a shard's Lease that the process of its epoch has died, and which objects it
// worked on then. all says that there were no others. The Lease of another kind is left as it is.
func MarkCrash(l *coordinationv1.Lease, objects []uint64, all bool) {
	epoch, ok := l.Annotations[EpochAnnotation]
	if !ok {
		return
	}
	var digests []string
	for _, digest := range objects {
		digests = append(digests, strconv.FormatUint(digest, 16))
	}
	if !all {
		digests = append(digests, "*")
	}
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, CrashAnnotation, epoch+":"+strings.Join(digests, ","))
}
