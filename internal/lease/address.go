package lease

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressAnnotation says where the holder of a record can be reached, as host:port.
const AddressAnnotation = "bellwether.dev/address"

// Address is that of the holder, empty if there is no holder or it has given none. In a record of
// another elector, which leaves annotations alone, it would be that of an earlier holder.
func (r Record) Address() string {
	if r.Holder() == "" || !r.Ours() {
		return ""
	}
	return r.lease.Annotations[AddressAnnotation]
}

// withAddress makes l say that its holder is at address, or that it is nowhere: not where a
// predecessor was.
func withAddress(l *coordinationv1.Lease, address string) *coordinationv1.Lease {
	delete(l.Annotations, AddressAnnotation)
	if address != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, AddressAnnotation, address)
	}
	return l
}
