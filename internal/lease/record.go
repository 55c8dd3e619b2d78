package lease

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
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

// TermAnnotation marks a record that was written by the rules of this package. Its value is
// <process>/<digest>/<transitions>: the mark of the process that has written it, which may be empty,
// a digest of the holder and the acquire time in the spec, and the transitions. client-go's elector
// leaves annotations alone, so the mark of another term proves nothing.
//
// The mark is short because each renewal sends it and each candidate receives it. The digest has 48
// bits, which is enough against chance. A user who may write the Lease can compute it as well.
const TermAnnotation = "bellwether.dev/term"

// ReleasedAnnotation replaces [TermAnnotation], with the same value, in a record whose holder gave it
// up after its work had ended. An empty holder without it is no release.
const ReleasedAnnotation = "bellwether.dev/released"

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
func (r Record) Released() bool {
	_, marked := r.process()
	return marked && r.Holder() == ""
}

// Ours reports whether the record states that its holder follows the rules of this package.
func (r Record) Ours() bool {
	_, marked := r.process()
	return marked && r.Holder() != ""
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
// the lease leaves the mark of its predecessor, but then the record is not [Record.Ours].
func (r Record) WrittenBy(process string) bool {
	writer, _ := r.process()
	return r.Ours() && process != "" && writer == process
}

// process returns the mark of the process that has written the record. ok is false unless the record
// is marked for the term in its spec, or as its release.
func (r Record) process() (process string, ok bool) {
	spec := &r.object().Spec
	return strings.CutSuffix(r.object().Annotations[markOf(spec)], termMark(spec))
}

// SetProcess marks l, whose spec is complete, as written by a process.
func SetProcess(l *coordinationv1.Lease, process string) {
	delete(l.Annotations, TermAnnotation)
	delete(l.Annotations, ReleasedAnnotation)
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, markOf(&l.Spec), process+termMark(&l.Spec))
}

// markOf returns the annotation that marks a record with this spec.
func markOf(s *coordinationv1.LeaseSpec) string {
	if ptr.Deref(s.HolderIdentity, "") == "" {
		return ReleasedAnnotation
	}
	return TermAnnotation
}

// termMark returns the end of the mark of a spec's term, /<digest>/<transitions>.
func termMark(s *coordinationv1.LeaseSpec) string {
	digest := sha256.Sum256(acquired(s).AppendFormat([]byte(ptr.Deref(s.HolderIdentity, "")+"/"), metav1.RFC3339Micro))
	return "/" + base64.RawURLEncoding.EncodeToString(digest[:6]) + "/" +
		strconv.Itoa(int(ptr.Deref(s.LeaseTransitions, 0)))
}

// acquired returns the acquire time as an API server stores it.
func acquired(s *coordinationv1.LeaseSpec) time.Time {
	return ptr.Deref(s.AcquireTime, metav1.MicroTime{}).UTC().Truncate(time.Microsecond)
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
	return r.lease.UID == o.lease.UID && r.Holder() == o.Holder() && r.Transitions() == o.Transitions() &&
		acquired(&r.lease.Spec).Equal(acquired(&o.lease.Spec))
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
		l.ManagedFields = nil                        // stays as it is
		if t := r.Transitions(); t < math.MaxInt32 { // the server would refuse a larger number
			transitions = t + 1
		}
	}
	delete(l.Annotations, WrittenAnnotation)
	delete(l.Annotations, PodAnnotation)
	l.Spec.HolderIdentity = ptr.To(identity)
	l.Spec.LeaseDurationSeconds = ptr.To(int32(d / time.Second))
	l.Spec.AcquireTime = ptr.To(stamp)
	l.Spec.RenewTime = ptr.To(stamp)
	l.Spec.LeaseTransitions = ptr.To(transitions)
	SetProcess(l, "")
	return l
}

// Renewal returns the object that renews r.
func (r Record) Renewal(stamp metav1.MicroTime) *coordinationv1.Lease {
	l := r.lease.DeepCopy()
	l.Spec.RenewTime = ptr.To(stamp)
	l.ManagedFields = r.managedFields()
	return l
}

// managedFields returns what a renewal sends as its managed fields. An empty entry makes the API
// server stop tracking who has set which field, because otherwise each renewal returns the entries,
// and sends them to each candidate. Sending nothing leaves them as they are.
//
// They are given up only if the elector's own entry is the only one, so that nothing of others is
// lost: no field that server-side apply or kubectl has set. The only writer of the renew time of a
// record of ours is its holder.
func (r Record) managedFields() []metav1.ManagedFieldsEntry {
	entries := r.object().ManagedFields
	if len(entries) != 1 || entries[0].Operation != metav1.ManagedFieldsOperationUpdate ||
		entries[0].FieldsV1 == nil || !strings.Contains(entries[0].FieldsV1.String(), `"f:renewTime"`) {
		return nil
	}
	return []metav1.ManagedFieldsEntry{{}}
}

// Release returns the object that ends the term of r.
func (r Record) Release(stamp metav1.MicroTime) *coordinationv1.Lease {
	process, _ := r.process()
	l := r.Renewal(stamp)
	delete(l.Annotations, AddressAnnotation)
	delete(l.Annotations, PodAnnotation)
	l.Spec.HolderIdentity = ptr.To("")
	l.Spec.LeaseDurationSeconds = ptr.To(int32(1)) // the wait of client-go's elector
	SetProcess(l, process)
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
