package shardlease

import (
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	mark := map[bool]string{true: "true"}
	for key, value := range map[string]string{
		shardrecord.IncarnationAnnotation: incarnation, shardrecord.ReturnAnnotation: returns,
		shardrecord.PodAnnotation: c.pod, shardrecord.LeavingAnnotation: mark[leaving],
		shardrecord.IdleAnnotation: mark[idle],
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
