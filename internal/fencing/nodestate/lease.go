package nodestate

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// lease has what was seen of the Lease of a node's name.
type lease struct {
	uid     types.UID
	owner   types.UID // of the Node, if known
	version string
	stamp   metav1.MicroTime // of another clock: only compared for equality
	renewed time.Time        // when it was seen to change, by our clock; zero if never
	gone    bool
}

// see takes in a version of the same Lease that has arrived now and is not older than the known
// one. A watch may be reset to an earlier state; then nothing was renewed.
func (l *lease) see(v *coordinationv1.Lease, now time.Time) {
	if stamp := stampOf(v); !stamp.IsZero() && !stamp.Equal(&l.stamp) {
		l.stamp, l.renewed = stamp, now
	}
	l.owner, l.version = owner(v), v.ResourceVersion
}

func stampOf(v *coordinationv1.Lease) metav1.MicroTime {
	if v.Spec.RenewTime == nil {
		return metav1.MicroTime{}
	}
	return *v.Spec.RenewTime
}

func (l *lease) silentFor(now time.Time) time.Duration {
	if l == nil || l.renewed.IsZero() {
		return policy.NotSeen
	}
	return max(now.Sub(l.renewed), 0)
}

func owner(v *coordinationv1.Lease) types.UID {
	for _, o := range v.OwnerReferences {
		if o.Kind == "Node" {
			return o.UID
		}
	}
	return ""
}

// older reports whether one version of an object precedes another, as far as resourceVersions show.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
