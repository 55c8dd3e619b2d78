package shardlease

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
)

// unfit returns why a Lease is not one of the ring. Another program may need it.
func (c Config) unfit(r lease.Record) error {
	ring, labelled := r.Lease().Labels[RingLabel]
	_, err := EpochOf(r.Lease())
	switch {
	case labelled && ring != c.Ring:
		return fmt.Errorf("%w: its label %s is %q, not %q: choose another Identity or Namespace", ErrForeign, RingLabel,
			ring, c.Ring)
	case err != nil:
		return fmt.Errorf("%w: %w: choose another Identity, or delete the Lease if it is not needed", ErrForeign, err)
	}
	return nil // a missing label is restored
}

// reclaims reports whether an ended process of this Pod has written the record. incarnation is
// empty unless this process is the only one of its name.
func (c Config) reclaims(r lease.Record, incarnation string) bool {
	return incarnation != "" && r.Holder() == c.Identity && r.Ours() &&
		r.Lease().Annotations[shardrecord.IncarnationAnnotation] == incarnation
}

// dress sets everything in a record but holder and times, which restores what a user removes from a
// held lease.
func (c Config) dress(l *coordinationv1.Lease, prior lease.Record, incarnation string, leaving, idle bool) {
	number, _ := nextNumber(prior, c.Identity) // without one, prior is unfit
	for key, value := range c.Labels {
		metav1.SetMetaDataLabel(&l.ObjectMeta, key, value)
	}
	metav1.SetMetaDataLabel(&l.ObjectMeta, RingLabel, c.Ring)
	setEpoch(l, number)
	returns := ""
	if c.ReturnWithin > 0 {
		returns = strconv.FormatInt(int64(c.ReturnWithin/time.Second), 10)
	}
	weight := ""
	if w := ptr.Deref(c.Weight, DefaultWeight); w != DefaultWeight {
		weight = strconv.Itoa(w)
	}
	mark := map[bool]string{true: "true"}
	for key, value := range map[string]string{
		shardrecord.IncarnationAnnotation: incarnation, shardrecord.ReturnAnnotation: returns,
		shardrecord.PodAnnotation: c.pod, shardrecord.LeavingAnnotation: mark[leaving],
		shardrecord.IdleAnnotation: mark[idle], shardrecord.OwnWeightAnnotation: weight,
		shardrecord.VersionAnnotation: c.Version,
	} {
		delete(l.Annotations, key)
		if value != "" {
			metav1.SetMetaDataAnnotation(&l.ObjectMeta, key, value)
		}
	}
}

// altered returns an error if the epoch in the record is no longer that of the running work, which
// for observers is over.
func altered(first, r lease.Record) error {
	mine, _ := EpochOf(first.Lease())
	if now, err := EpochOf(r.Lease()); err == nil && now.Number != mine.Number {
		return fmt.Errorf("its annotation %s was changed from %d to %d", shardrecord.EpochAnnotation, mine.Number,
			now.Number)
	}
	return nil
}

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

// Idle reports whether the shard of this Lease is idle: its process holds the Lease, and nothing in it
// works on objects. The sharder does not count such a shard as a member of the ring. l may be nil.
func Idle(l *coordinationv1.Lease) bool {
	if l == nil {
		return false
	}
	_, idle := l.Annotations[shardrecord.IdleAnnotation]
	return idle
}
