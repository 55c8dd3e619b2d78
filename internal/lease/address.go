package lease

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressAnnotation is the address of the record's holder, as host:port.
const AddressAnnotation = "bellwether.dev/address"

// Address returns the address of the holder, or "". Electors of other kinds leave annotations
// alone, so in their records it would be the address of an earlier holder, and is ignored.
func (r Record) Address() string {
	if r.Holder() == "" || !r.Ours() {
		return ""
	}
	return r.lease.Annotations[AddressAnnotation]
}

// WithAddress sets the address of l's holder, or removes that of a predecessor.
func WithAddress(l *coordinationv1.Lease, address string) *coordinationv1.Lease {
	delete(l.Annotations, AddressAnnotation)
	if address != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, AddressAnnotation, address)
	}
	return l
}
