package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	name  = types.NamespacedName{Namespace: "ns", Name: "l"}
)

// at is the stamp of a time after the epoch.
func at(d time.Duration) metav1.MicroTime { return metav1.MicroTime{Time: epoch.Add(d)} }

// reading is that of a clock so long after the epoch.
func reading(d time.Duration) clock.Reading { return clock.Reading{Wall: epoch.Add(d), Monotonic: d} }

// taken is the first version of a term that holder begins at an empty place.
func taken(holder string, d time.Duration) *coordinationv1.Lease {
	l := Record{}.Acquired(name, holder, d, at(0))
	l.UID, l.ResourceVersion = "u", "1"
	return l
}

// version returns l as stored at another resourceVersion, after a change of its spec or metadata.
func version(l *coordinationv1.Lease, rv string, change func(*coordinationv1.Lease)) Record {
	l = l.DeepCopy()
	l.ResourceVersion = rv
	if change != nil {
		change(l)
	}
	return RecordOf(l)
}

func TestAcquiredRecord(t *testing.T) {
	first := taken("host-a_1", 15*time.Second)
	assert.Equal(t, coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("host-a_1"), LeaseDurationSeconds: ptr.To(int32(15)),
		AcquireTime: ptr.To(at(0)), RenewTime: ptr.To(at(0)), LeaseTransitions: ptr.To(int32(0)),
	}, first.Spec)

	assert.Equal(t, "/"+digest+"/0", first.Annotations[TermAnnotation])

	first.Labels = map[string]string{"team": "a"}
	next := RecordOf(first).Acquired(name, "b", 10*time.Second, at(time.Minute))
	assert.Equal(t, int32(1), *next.Spec.LeaseTransitions, "every term has its number")
	assert.Equal(t, first.Labels, next.Labels, "metadata of others stays")
	assert.Equal(t, types.UID("u"), next.UID, "or a PUT would create the Lease again after its deletion")
	assert.Equal(t, "1", next.ResourceVersion, "or the write would not be a compare-and-swap")

	first.Spec.LeaseTransitions = ptr.To(int32(math.MaxInt32))
	assert.Equal(t, int32(0), *RecordOf(first).Acquired(name, "b", time.Second, at(0)).Spec.LeaseTransitions,
		"the API server refuses negative transitions: an overflow would end all succession")
}

func TestReleaseNeedsItsMarker(t *testing.T) {
	l := taken("a/with/slashes", 15*time.Second)
	SetProcess(l, "PROCESS")
	held := RecordOf(l)
	released := held.Release(at(time.Second))
	assert.Equal(t, "PROCESS/"+releasedDigest+"/0", released.Annotations[ReleasedAnnotation])
	assert.Equal(t, int32(1), *released.Spec.LeaseDurationSeconds)

	for _, c := range []struct {
		name   string
		change func(*coordinationv1.Lease)
		want   bool
	}{
		{"as released", nil, true},
		{"other time zone", func(l *coordinationv1.Lease) {
			l.Spec.AcquireTime = &metav1.MicroTime{Time: l.Spec.AcquireTime.In(time.FixedZone("X", 3600))}
		}, true},
		{"held again", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") }, false},
		{"no marker", func(l *coordinationv1.Lease) { l.Annotations = nil }, false},
		{
			"marker of a term before", func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(1)) },
			false,
		},
		{
			"marker of another acquisition", func(l *coordinationv1.Lease) {
				l.Spec.AcquireTime = ptr.To(at(time.Hour))
			},
			false,
		},
		{"marker without a term", func(l *coordinationv1.Lease) { l.Annotations[ReleasedAnnotation] = "/0" }, false},
		{"marker of the term, and emptied", func(l *coordinationv1.Lease) {
			l.Annotations[ReleasedAnnotation] = held.Lease().Annotations[TermAnnotation]
		}, false},
		{"no acquire time", func(l *coordinationv1.Lease) { l.Spec.AcquireTime = nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, version(released, "2", c.change).Released())
		})
	}
	assert.False(t, Record{}.Released(), "deletion is not release")
}

// Versions that run side by side must agree on the digests.
const (
	digest         = "SkokSIPl"
	releasedDigest = "5yaqQOj6"
)

func TestNextTermDropsTheMarker(t *testing.T) {
	released := RecordOf(RecordOf(taken("a", 15*time.Second)).Release(at(time.Second)))
	assert.NotContains(t, released.Acquired(name, "b", 15*time.Second, at(time.Minute)).Annotations, ReleasedAnnotation)
}

func TestRecordsOfOurs(t *testing.T) {
	held := taken("a/b", 15*time.Second)
	for _, c := range []struct {
		name   string
		change func(*coordinationv1.Lease)
		ours   bool
	}{
		{"as acquired", nil, true},
		{"renewed", func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(at(time.Hour)) }, true},
		{"taken over by another elector, which leaves annotations alone", func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.LeaseTransitions = ptr.To("b"), ptr.To(at(time.Hour)),
				ptr.To(int32(1))
		}, false},
		{
			"another holder in the same term", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") },
			false,
		},
		{"no annotation", func(l *coordinationv1.Lease) { l.Annotations = nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.ours, version(held, "2", c.change).Ours())
		})
	}
	assert.False(t, Record{}.Ours())
	assert.NotContains(t, RecordOf(held).Release(at(0)).Annotations, TermAnnotation)
}

// entry is what an API server tracks of the fields that a manager has set.
func entry(operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: "m", Operation: operation, APIVersion: "coordination.k8s.io/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestRenewalGivesUpOnlyItsOwnManagedFields(t *testing.T) {
	const update, apply = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	ours := entry(update, `{"f:spec":{"f:holderIdentity":{},"f:renewTime":{}}}`)
	annotated := entry(update, `{"f:metadata":{"f:annotations":{"f:team":{}}}}`)
	for _, c := range []struct {
		name    string
		entries []metav1.ManagedFieldsEntry
		sent    []metav1.ManagedFieldsEntry
	}{
		{"only the elector's", []metav1.ManagedFieldsEntry{ours}, []metav1.ManagedFieldsEntry{{}}},
		{"given up", nil, nil},
		{"and another client's", []metav1.ManagedFieldsEntry{ours, annotated}, nil},
		{"another client's", []metav1.ManagedFieldsEntry{annotated}, nil},
		{"applied", []metav1.ManagedFieldsEntry{entry(apply, `{"f:spec":{"f:renewTime":{}}}`)}, nil},
		{"without fields", []metav1.ManagedFieldsEntry{{Manager: "m", Operation: update}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := version(taken("a", 15*time.Second), "2", func(l *coordinationv1.Lease) { l.ManagedFields = c.entries })
			assert.Equal(t, c.sent, r.Renewal(at(time.Second)).ManagedFields)
			assert.Nil(t, r.Acquired(name, "b", 15*time.Second, at(time.Second)).ManagedFields,
				"the renew time may be that of another program")
		})
	}
}
