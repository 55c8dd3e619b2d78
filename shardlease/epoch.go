package shardlease

import (
	"errors"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// RingLabel is the label of a shard's Lease with the name of its ring.
	RingLabel = "ring.bellwether.dev/name"

	// EpochAnnotation is the annotation of a shard's Lease with the number of its epoch.
	EpochAnnotation = "ring.bellwether.dev/epoch"

	// IncarnationAnnotation is the annotation of a shard's Lease with the [Config].Incarnation of its holder.
	IncarnationAnnotation = "ring.bellwether.dev/incarnation"

	// Sharder is the holder of a Lease that the sharder has taken: one constant, whichever process it was. No shard can have this name.
	Sharder = "bellwether.dev/sharder"
)

// Epoch is a period in which a shard's claims on objects are good: what an object's record names beside the shard. It outlives terms:
// a shard that comes back before anybody took its lease goes on in the same epoch, so that a restart moves nothing.
type Epoch struct {
	// LeaseUID is the UID of the Lease object.
	LeaseUID types.UID
	// Number counts up within one Lease object.
	Number int64
}

// String is for messages.
func (e Epoch) String() string { return fmt.Sprintf("%s/%d", e.LeaseUID, e.Number) }

// EpochOf returns the epoch in a shard's Lease. The error says that there is none.
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

// nextNumber is the number of the epoch that begins when a shard takes its lease over from prior; nil: it creates the lease. It is greater if
// and only if the shard creates the lease, or nobody held it, or the sharder did: then its objects may have gone to others.
// Otherwise the holder was the shard itself.
func nextNumber(prior *coordinationv1.Lease) (int64, error) {
	if prior == nil {
		return 1, nil
	}
	e, err := EpochOf(prior)
	if err != nil {
		return 0, err
	}
	switch ptr.Deref(prior.Spec.HolderIdentity, "") {
	case "", Sharder:
		return e.Number + 1, nil
	default:
		return e.Number, nil
	}
}
