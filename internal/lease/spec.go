package lease

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SameSpec reports whether an API server stores two specs in the same way. It compares all fields,
// including those that this package does not know.
func SameSpec(a, b *coordinationv1.LeaseSpec) bool {
	return a.RenewTime.Equal(b.RenewTime) && bytes.Equal(encoded(a), encoded(b)) // most have another renew time
}

func encoded(s *coordinationv1.LeaseSpec) []byte {
	raw, err := s.Marshal()
	if err != nil { // impossible: it only copies fields
		panic("lease: encode a spec: " + err.Error())
	}
	return raw
}

// AsSent returns the stored version of l. If its spec differs, it returns an error with the
// differences, because the holder would not recognize the record as its own.
func AsSent(l, stored *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	if differences := specDifferences(l.Spec, stored.Spec); len(differences) > 0 {
		return nil, fmt.Errorf("the API server has stored something else than was sent, as an admission webhook may "+
			"do: %s",
			strings.Join(differences, ", "))
	}
	return stored, nil
}

// ChangesTo names the fields of the spec that differ in a later version, with both values.
func (r Record) ChangesTo(later Record) string {
	if r.lease == nil || later.lease == nil {
		return ""
	}
	return strings.Join(specDifferences(r.lease.Spec, later.lease.Spec), ", ")
}

// specDifferences names the fields that differ, with both values.
func specDifferences(sent, stored coordinationv1.LeaseSpec) []string {
	var differences []string
	for _, f := range []struct{ field, sent, stored string }{
		{"holderIdentity", show(sent.HolderIdentity), show(stored.HolderIdentity)},
		{"leaseDurationSeconds", show(sent.LeaseDurationSeconds), show(stored.LeaseDurationSeconds)},
		{"acquireTime", showTime(sent.AcquireTime), showTime(stored.AcquireTime)},
		{"renewTime", showTime(sent.RenewTime), showTime(stored.RenewTime)},
		{"leaseTransitions", show(sent.LeaseTransitions), show(stored.LeaseTransitions)},
		{"strategy", show(sent.Strategy), show(stored.Strategy)},
		{"preferredHolder", show(sent.PreferredHolder), show(stored.PreferredHolder)},
	} {
		if f.sent != f.stored {
			differences = append(differences, fmt.Sprintf("spec.%s is %s instead of %s", f.field, f.stored, f.sent))
		}
	}
	return differences
}

func show[T any](value *T) string {
	if value == nil {
		return "missing"
	}
	return fmt.Sprintf("%#v", ptr.Deref(value, *value))
}

func showTime(t *metav1.MicroTime) string {
	if t == nil {
		return "missing"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
