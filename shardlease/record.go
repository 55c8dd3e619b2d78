package shardlease

import (
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// unfit says why a Lease is not one of the shard's ring, or has lost what makes it one. Somebody
// else may need it.
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
	return nil // the label will be put back
}

// reclaims reports whether a record is of an earlier process of this Pod that has ended.
// incarnation is empty unless this process is the only one of its name now, as that one was.
func (c Config) reclaims(r lease.Record, incarnation string) bool {
	return incarnation != "" && r.Holder() == c.Identity && r.Ours() &&
		r.Lease().Annotations[IncarnationAnnotation] == incarnation
}

// dress writes what a record says beyond holder and times. Who removes it from a lease that is held
// sees it come back.
func (c Config) dress(l *coordinationv1.Lease, prior lease.Record, incarnation string, leaving bool) {
	number, _ := nextNumber(prior, c.Identity) // where there is none, prior is unfit
	for key, value := range c.Labels {
		metav1.SetMetaDataLabel(&l.ObjectMeta, key, value)
	}
	metav1.SetMetaDataLabel(&l.ObjectMeta, RingLabel, c.Ring)
	setEpoch(l, number)
	returns := ""
	if c.ReturnWithin > 0 {
		returns = strconv.FormatInt(int64(c.ReturnWithin/time.Second), 10)
	}
	leaves := ""
	if leaving {
		leaves = "true"
	}
	for key, value := range map[string]string{
		IncarnationAnnotation: incarnation, ReturnAnnotation: returns, PodAnnotation: c.pod, LeavingAnnotation: leaves,
	} {
		delete(l.Annotations, key)
		if value != "" {
			metav1.SetMetaDataAnnotation(&l.ObjectMeta, key, value)
		}
	}
}

// altered says that somebody has given a record another epoch than the one in which work is going
// on. Observers take that work for dead.
func altered(first, r lease.Record) error {
	mine, _ := EpochOf(first.Lease())
	if now, err := EpochOf(r.Lease()); err == nil && now.Number != mine.Number {
		return fmt.Errorf("its annotation %s was changed from %d to %d", EpochAnnotation, mine.Number, now.Number)
	}
	return nil
}
