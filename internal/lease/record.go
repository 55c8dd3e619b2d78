package lease

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

// ReleasedAnnotation marks a record whose holder gave it up after its work had ended. Its value is
// <holder>/<acquireTime>/<transitions> of the term that ended. An empty holder without it is no
// release.
const ReleasedAnnotation = "bellwether.dev/released"

// TermAnnotation marks a record that was written by the rules of this package. Its value is that of
// ReleasedAnnotation for the term of the spec. client-go's elector leaves annotations alone, so the
// mark of another term proves nothing.
const TermAnnotation = "bellwether.dev/term"

// ProcessAnnotation is the mark, a random text, of the process that has written a record.
const ProcessAnnotation = "bellwether.dev/process"

// LockLabel with the value [LockForLife] marks the lock of a leader for life, be it a Lease or a
// ConfigMap.
const (
	LockLabel   = "bellwether.dev/lock"
	LockForLife = "life"
)

// Record is one version of a lease as the API server stored it. The zero Record is the absence of
// the object.
type Record struct {
	lease *coordinationv1.Lease
}

// RecordOf wraps a Lease, which must not be changed afterwards. Nil means absence.
func RecordOf(l *coordinationv1.Lease) Record { return Record{l} }

// Lease returns the object, which must not be changed; nil if it is absent.
func (r Record) Lease() *coordinationv1.Lease { return r.lease }

// Exists reports whether the object exists.
func (r Record) Exists() bool { return r.lease != nil }

// absent is read in place of a Lease that does not exist.
var absent coordinationv1.Lease

// object returns the Lease for reading, or an empty one.
func (r Record) object() *coordinationv1.Lease {
	if r.lease == nil {
		return &absent
	}
	return r.lease
}

// Holder returns the identity in the record; empty if the lease has no holder.
func (r Record) Holder() string { return ptr.Deref(r.object().Spec.HolderIdentity, "") }

// Duration returns the duration in the record; zero if it is missing or not usable.
func (r Record) Duration() time.Duration {
	return max(0, time.Duration(ptr.Deref(r.object().Spec.LeaseDurationSeconds, 0))*time.Second)
}

// UID returns the UID of the object.
func (r Record) UID() types.UID { return r.object().UID }

// ResourceVersion returns the version of the object.
func (r Record) ResourceVersion() string { return r.object().ResourceVersion }

// Transitions returns the number of earlier terms.
func (r Record) Transitions() int32 { return ptr.Deref(r.object().Spec.LeaseTransitions, 0) }

// Released reports whether the record has the mark of a release, so that its holder has stopped.
func (r Record) Released() bool { return r.Holder() == "" && r.markedBy(ReleasedAnnotation) }

// Ours reports whether the record states that its holder follows the rules of this package.
func (r Record) Ours() bool {
	return r.lease != nil && r.lease.Annotations[TermAnnotation] == r.Holder()+r.termSuffix()
}

// Emptied reports whether a record of ours has no holder and was not released. The acquire time
// does not count, because a client-go elector that was deposed by one of ours empties the record of
// its successor if it can, and writes its own time.
func (r Record) Emptied() bool {
	return r.Holder() == "" &&
		strings.HasSuffix(r.object().Annotations[TermAnnotation], fmt.Sprintf("/%d", r.Transitions()))
}

// Coordinated reports whether Kubernetes' coordinated leader election decides who holds the lease.
func (r Record) Coordinated() bool {
	return r.object().Spec.Strategy != nil || r.object().Spec.PreferredHolder != nil
}

// ForLife reports whether the record is the lock of a leader for life, which is not renewed.
func (r Record) ForLife() bool { return r.object().Labels[LockLabel] == LockForLife }

// WrittenBy reports whether a process with this mark holds the lease. Another elector that has taken
// the lease leaves the mark of its predecessor.
func (r Record) WrittenBy(process string) bool {
	return r.Ours() && r.Holder() != "" && process != "" && r.lease.Annotations[ProcessAnnotation] == process
}

// markedBy reports whether an annotation names the term of this record, not only its holder.
func (r Record) markedBy(annotation string) bool {
	holder, ok := strings.CutSuffix(r.object().Annotations[annotation], r.termSuffix())
	return ok && holder != ""
}

// termSuffix is the end of a mark of this record's term. The holder precedes it and may contain
// slashes.
func (r Record) termSuffix() string {
	acquired := ptr.Deref(r.object().Spec.AcquireTime, metav1.MicroTime{})
	suffix := acquired.UTC().AppendFormat([]byte("/"), metav1.RFC3339Micro)
	return string(strconv.AppendInt(append(suffix, '/'), int64(r.Transitions()), 10))
}

// SameVersion compares UID and resourceVersion. It also compares the spec, because client-go's fake
// clientsets leave both empty.
func (r Record) SameVersion(o Record) bool {
	if r.lease == nil || o.lease == nil {
		return r.lease == o.lease
	}
	return r.lease.UID == o.lease.UID && r.lease.ResourceVersion == o.lease.ResourceVersion &&
		SameSpec(&r.lease.Spec, &o.lease.Spec)
}

// CompareVersion compares resourceVersions, which grow. known is false if they are not numbers, as
// in fake clientsets.
func (r Record) CompareVersion(o Record) (order int, known bool) {
	a, errA := strconv.ParseUint(r.ResourceVersion(), 10, 64)
	b, errB := strconv.ParseUint(o.ResourceVersion(), 10, 64)
	return cmp.Compare(a, b), errA == nil && errB == nil
}

// keepsSpecOf reports whether r is a later version of the same object with the spec of o. Then only
// metadata has changed, because every renewal has its own renew time, so none can have come
// between, unless a user has restored an older spec.
func (r Record) keepsSpecOf(o Record) bool {
	if r.lease == nil || o.lease == nil || r.lease.UID != o.lease.UID {
		return false
	}
	order, known := r.CompareVersion(o)
	return known && order > 0 && SameSpec(&r.lease.Spec, &o.lease.Spec)
}

// SameRenewal reports whether both records have the same renew time.
func (r Record) SameRenewal(o Record) bool {
	return r.lease != nil && o.lease != nil && r.lease.Spec.RenewTime.Equal(o.lease.Spec.RenewTime)
}

// SameTerm reports whether both records were written in the same term.
func (r Record) SameTerm(o Record) bool {
	if r.lease == nil || o.lease == nil {
		return false
	}
	return r.lease.UID == o.lease.UID && r.Holder() == o.Holder() && r.termSuffix() == o.termSuffix()
}

// Acquired returns the object that takes the lease over from r, at the wall time stamp. Metadata of
// others stays, as do UID and resourceVersion, which make the write a compare-and-swap. Without the
// UID, a PUT on a deleted Lease would create it again.
func (r Record) Acquired(name types.NamespacedName, identity string, d time.Duration,
	stamp metav1.MicroTime,
) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	transitions := int32(0)
	if r.Exists() {
		l = r.lease.DeepCopy()
		if t := r.Transitions(); t < math.MaxInt32 { // the server would refuse a larger number
			transitions = t + 1
		}
	}
	delete(l.Annotations, ReleasedAnnotation)
	delete(l.Annotations, WrittenAnnotation)
	delete(l.Annotations, PodAnnotation)
	l.Spec.HolderIdentity = ptr.To(identity)
	l.Spec.LeaseDurationSeconds = ptr.To(int32(d / time.Second))
	l.Spec.AcquireTime = ptr.To(stamp)
	l.Spec.RenewTime = ptr.To(stamp)
	l.Spec.LeaseTransitions = ptr.To(transitions)
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, TermAnnotation, identity+Record{l}.termSuffix())
	return l
}

// Renewal returns the object that renews r.
func (r Record) Renewal(stamp metav1.MicroTime) *coordinationv1.Lease {
	l := r.lease.DeepCopy()
	l.Spec.RenewTime = ptr.To(stamp)
	return l
}

// Release returns the object that ends the term of r.
func (r Record) Release(stamp metav1.MicroTime) *coordinationv1.Lease {
	l := r.Renewal(stamp)
	delete(l.Annotations, TermAnnotation)
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, ReleasedAnnotation, r.Holder()+r.termSuffix())
	delete(l.Annotations, AddressAnnotation)
	delete(l.Annotations, PodAnnotation)
	l.Spec.HolderIdentity = ptr.To("")
	l.Spec.LeaseDurationSeconds = ptr.To(int32(1)) // the wait of client-go's elector
	return l
}

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

// WrittenAnnotation states up to which version the term that was released, and those before it,
// have written each resource: the mark of the release, a space, and [handover.Versions]. Electors
// that leave annotations alone also leave this one, whose mark is then of another term.
const WrittenAnnotation = "bellwether.dev/written"

// maxWritten bounds the annotation, in bytes. A term that has written more resources omits it.
const maxWritten = 16 << 10

// Written returns up to which version the terms until this release have written each resource.
func (r Record) Written() handover.Versions {
	if !r.Released() {
		return handover.Unknown()
	}
	annotations := r.lease.Annotations
	text, ofTerm := strings.CutPrefix(annotations[WrittenAnnotation], annotations[ReleasedAnnotation]+" ")
	versions, err := handover.Parse(text)
	if err != nil || !ofTerm {
		return handover.Unknown()
	}
	return versions
}

// WithWritten records in a release what was written.
func WithWritten(l *coordinationv1.Lease, v handover.Versions) *coordinationv1.Lease {
	if text := v.String(); len(text) <= maxWritten {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, WrittenAnnotation, l.Annotations[ReleasedAnnotation]+" "+text)
	}
	return l
}
