package shardlease

import (
	"errors"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

const (
	// RingLabel is the label of a shard's Lease with the name of its ring.
	RingLabel = "ring.bellwether.dev/name"

	// Sharder is the holder of a Lease that a sharder has taken over, whichever process it was. A
	// shard cannot have this name.
	Sharder = "bellwether.dev/sharder"
)

// Epoch is a period in which the assignments of objects to a shard are valid. The record of an
// object names the shard and the epoch. An epoch outlives terms: if a shard restarts before its
// lease is taken over, its epoch continues, so that no object moves.
type Epoch struct {
	// LeaseUID is the UID of the Lease object.
	LeaseUID types.UID
	// Number grows within one Lease object.
	Number int64
}

// String formats the epoch for messages.
func (e Epoch) String() string { return fmt.Sprintf("%s/%d", e.LeaseUID, e.Number) }

// EpochOf returns the epoch in a shard's Lease, or an error with the reason why it has no epoch.
func EpochOf(l *coordinationv1.Lease) (Epoch, error) {
	value, ok := l.Annotations[shardrecord.EpochAnnotation]
	if !ok {
		return Epoch{}, errors.New("annotation " + shardrecord.EpochAnnotation + " is missing")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != value {
		return Epoch{}, fmt.Errorf("annotation %s must be a whole number (got %q)", shardrecord.EpochAnnotation, value)
	}
	return Epoch{l.UID, n}, nil
}

// nextNumber is the number of the epoch that begins when a shard takes its lease over from prior.
// It stays the same only if prior names the shard itself, because then the lease was neither
// released nor taken over, and no object has moved. A sharder that takes over keeps the number.
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
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, shardrecord.EpochAnnotation, strconv.FormatInt(number, 10))
}
