package shardlease

import (
	"errors"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

const (
	// RingLabel is the label of a shard's Lease with the name of its ring.
	RingLabel = "ring.bellwether.dev/name"

	// EpochAnnotation is the annotation of a shard's Lease with the number of its epoch.
	EpochAnnotation = "ring.bellwether.dev/epoch"

	// IncarnationAnnotation is the annotation of a shard's Lease with the [Config].Incarnation of
	// its holder.
	IncarnationAnnotation = "ring.bellwether.dev/incarnation"

	// ReturnAnnotation is the annotation of a shard's Lease with the seconds of its
	// [Config].ReturnWithin.
	ReturnAnnotation = "ring.bellwether.dev/return-within-seconds"

	// PodAnnotation is the annotation of a shard's Lease with the hostname of the Pod that has
	// claimed it ([ClaimOrdinal]).
	PodAnnotation = "ring.bellwether.dev/pod"

	// LeavingAnnotation is the annotation of a claimed Lease whose shard has been told to stop,
	// until it has released the Lease.
	LeavingAnnotation = "ring.bellwether.dev/leaving"

	// Sharder is the holder of a Lease that the sharder has taken: one constant, whichever process
	// it was. No shard can have this name.
	Sharder = "bellwether.dev/sharder"
)

// Epoch is a period in which a shard's claims on objects are good: what an object's record names
// beside the shard. It outlives terms: a shard that comes back before anybody took its lease goes
// on in the same epoch, so that a restart moves nothing.
type Epoch struct {
	// LeaseUID is the UID of the Lease object.
	LeaseUID types.UID
	// Number counts up within one Lease object.
	Number int64
}

// String is for messages.
func (e Epoch) String() string { return fmt.Sprintf("%s/%d", e.LeaseUID, e.Number) }

// EpochOf returns the epoch in a shard's Lease. The error says why there is none.
func EpochOf(l *coordinationv1.Lease) (Epoch, error) {
	value, ok := l.Annotations[EpochAnnotation]
	if !ok {
		return Epoch{}, errors.New("annotation " + EpochAnnotation + " is missing")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != value {
		return Epoch{}, fmt.Errorf("annotation %s must be a whole number (got %q)", EpochAnnotation, value)
	}
	return Epoch{l.UID, n}, nil
}

// nextNumber is that of the epoch which begins when a shard takes its lease over from prior. It
// stays the same only if the shard itself stands in prior: then the lease was neither released nor
// taken, and no object has gone to others. The sharder writes it as it was.
func nextNumber(prior lease.Record, shard string) (int64, error) {
	if !prior.Exists() {
		return 1, nil
	}
	e, err := EpochOf(prior.Lease())
	if err != nil {
		return 0, err
	}
	if prior.Holder() == shard && prior.Ours() {
		return e.Number, nil
	}
	return e.Number + 1, nil
}

func setEpoch(l *coordinationv1.Lease, number int64) {
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, EpochAnnotation, strconv.FormatInt(number, 10))
}
