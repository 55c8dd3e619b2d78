package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// nothing is reclaimed.
func nothing(Record) bool { return false }

// TestObservation is the candidate's rules as a table: what arrives when, and when the lease is
// free after it. The candidate's own duration is 15 s.
func TestObservation(t *testing.T) {
	const s = time.Second
	held := taken("a", 10*s)
	renewed := func(rv string, n int) Record {
		return version(held, rv, func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(at(time.Duration(n) * s)) })
	}
	released := RecordOf(RecordOf(held).Release(at(0)))
	emptied := version(held, "5", func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To(int32(1))
	})
	beaten := Record{&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "beaten"}}}
	spent := Record{&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "spend"}}}
	foreign := func(seconds int32) Record {
		return version(held, "3", func(l *coordinationv1.Lease) {
			l.Annotations, l.Spec.LeaseDurationSeconds = nil, &seconds
		})
	}
	emptiedByOther := version(held, "5", func(l *coordinationv1.Lease) {
		l.Annotations, l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = nil, ptr.To(""), ptr.To(int32(1))
		l.Spec.AcquireTime = ptr.To(at(7 * s))
	})
	next := RecordOf(held).Acquired(name, "b", 5*s, at(4*s))
	label := func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} }
	unmark := func(l *coordinationv1.Lease) { l.Annotations = nil }
	type seen struct {
		r  Record
		at time.Duration
	}
	for _, c := range []struct {
		name string
		seen []seen
		free time.Duration
	}{
		{"never existed", []seen{{Record{}, 0}}, 0},
		{"held: after the record's duration, not ours", []seen{{RecordOf(held), 1 * s}}, 11 * s},
		{"renewed", []seen{{RecordOf(held), 0}, {renewed("2", 3), 3 * s}}, 13 * s},
		{"the same version again", []seen{{RecordOf(held), 0}, {RecordOf(held), 9 * s}}, 10 * s},
		{
			"new metadata does not restart the wait",
			[]seen{{RecordOf(held), 0}, {version(held, "2", nil), 4 * s}, {version(held, "9", label), 9 * s}},
			10 * s,
		},
		{
			"nor does a lost mark, but it lengthens the wait",
			[]seen{{RecordOf(held), 0}, {version(held, "2", unmark), 4 * s}},
			15 * s,
		},
		{
			"nor the mark of a term that comes back",
			[]seen{{version(held, "1", unmark), 0}, {version(held, "2", nil), 4 * s}},
			10 * s,
		},
		{
			"a lower version of metadata restarts it",
			[]seen{{version(held, "7", nil), 0}, {version(held, "6", label), 4 * s}},
			14 * s,
		},
		{"and one that cannot be compared", []seen{{RecordOf(held), 0}, {version(held, "x", label), 4 * s}}, 14 * s},
		{
			"new metadata of another object",
			[]seen{{RecordOf(held), 0}, {version(held, "2", func(l *coordinationv1.Lease) {
				l.UID = "v"
			}), 4 * s}},
			14 * s,
		},
		{
			"new metadata between renewals",
			[]seen{{RecordOf(held), 0}, {renewed("2", 3), 3 * s}, {renewed("4", 3), 5 * s}},
			13 * s,
		},
		{
			"deleted, and there again as it was",
			[]seen{{RecordOf(held), 0}, {Record{}, 2 * s}, {version(held, "3", nil), 4 * s}},
			14 * s,
		},
		{
			"swap failed on new metadata",
			[]seen{{RecordOf(held), 0}, {beaten, 10 * s}, {version(held, "2", label), 11 * s}},
			10 * s,
		},
		{"swap failed, then the same version, then new metadata", []seen{
			{RecordOf(held), 0}, {spent, 10 * s}, {RecordOf(held), 11 * s}, {version(held, "2", label), 12 * s},
		}, 21 * s},
		{
			"swap failed, and somebody else has it",
			[]seen{{RecordOf(held), 0}, {beaten, 10 * s}, {RecordOf(next), 11 * s}},
			16 * s,
		},
		{"a lower version starts the wait again", []seen{{renewed("7", 3), 0}, {RecordOf(held), 4 * s}}, 14 * s},
		{"created again", []seen{{RecordOf(held), 0}, {version(held, "1", func(l *coordinationv1.Lease) {
			l.UID = "v"
		}), 4 * s}}, 14 * s},
		{"released", []seen{{RecordOf(held), 0}, {released, 4 * s}}, 4 * s},
		{"released, seen by a newcomer", []seen{{released, 0}}, 0},
		{"released and held again", []seen{{released, 0}, {version(held, "8", nil), 4 * s}}, 14 * s},
		{"emptied without marker: the holder's duration", []seen{
			{version(held, "1", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(60)) }), 0},
			{emptied, 4 * s},
		}, 64 * s},
		{"emptied without marker, seen by a newcomer: ours", []seen{{emptied, 4 * s}}, 19 * s},
		{"deleted while held", []seen{{RecordOf(held), 0}, {Record{}, 4 * s}}, 14 * s},
		{"deleted after it was released", []seen{{RecordOf(held), 0}, {released, 1 * s}, {Record{}, 4 * s}}, 4 * s},
		{"deleted after it was emptied", []seen{{emptied, 0}, {Record{}, 4 * s}}, 19 * s},
		{
			"duration shortened within the term",
			[]seen{{RecordOf(held), 0}, {version(held, "2", func(l *coordinationv1.Lease) {
				l.Spec.LeaseDurationSeconds = ptr.To(int32(1))
			}), 4 * s}},
			14 * s,
		},
		{
			"duration lengthened within the term",
			[]seen{{RecordOf(held), 0}, {version(held, "2", func(l *coordinationv1.Lease) {
				l.Spec.LeaseDurationSeconds = ptr.To(int32(20))
			}), 4 * s}},
			24 * s,
		},
		{"shorter duration of the next term", []seen{{RecordOf(held), 0}, {RecordOf(next), 4 * s}}, 9 * s},
		{"of another elector: a third more, at least 5 s", []seen{{foreign(10), 1 * s}}, 16 * s},
		{"of another elector, long", []seen{{foreign(60), 1 * s}}, 81 * s},
		{
			"another elector's after ours, with our mark of the term before",
			[]seen{{RecordOf(held), 0}, {version(held, "2", func(l *coordinationv1.Lease) {
				l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr.To("b"), ptr.To(int32(1))
			}), 4 * s}},
			19 * s,
		},
		{"emptied by another elector: one duration", []seen{{foreign(20), 0}, {emptiedByOther, 4 * s}}, 24 * s},
		{
			"emptied by another elector, then absent",
			[]seen{{foreign(20), 0}, {emptiedByOther, 4 * s}, {Record{}, 5 * s}},
			25 * s,
		},
		{"no duration: ours", []seen{{version(held, "2", func(l *coordinationv1.Lease) {
			l.Spec.LeaseDurationSeconds = nil
		}), 0}}, 15 * s},
		{"negative duration: ours", []seen{{version(held, "2", func(l *coordinationv1.Lease) {
			l.Spec.LeaseDurationSeconds = ptr.To(int32(-9))
		}), 0}}, 15 * s},
		{
			"swap failed, same version read again",
			[]seen{{RecordOf(held), 0}, {spent, 10 * s}, {RecordOf(held), 11 * s}},
			21 * s,
		},
		{"swap failed on a release", []seen{{released, 0}, {spent, 1 * s}, {released, 2 * s}}, 2 * s},
		{
			"swap failed on a release, then absent: somebody may have had it",
			[]seen{{released, 0}, {spent, 1 * s}, {Record{}, 2 * s}},
			17 * s,
		},
		{"creation failed, still absent", []seen{{Record{}, 0}, {spent, 1 * s}, {Record{}, 2 * s}}, 2 * s},
		{
			"somebody else created, and it is absent again",
			[]seen{{Record{}, 0}, {beaten, 1 * s}, {Record{}, 2 * s}},
			17 * s,
		},
		{"swap failed, then absent", []seen{{RecordOf(held), 0}, {spent, 10 * s}, {Record{}, 11 * s}}, 21 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			observation := NewObservation(15*s, false, nothing)
			for _, v := range c.seen {
				if v.r == spent || v.r == beaten {
					observation.Invalidate(v.r == beaten)
					_, ok := observation.TimeToExpiry(reading(v.at))
					assert.False(t, ok)
					continue
				}
				observation.Observe(v.r, reading(v.at))
			}
			free, ok := observation.TimeToExpiry(reading(0))
			assert.True(t, ok)
			assert.Equal(t, c.free, free)
		})
	}
}

func TestTrustInForeignReleases(t *testing.T) {
	const s = time.Second
	ours := taken("a", 10*s)
	empty := func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }
	for _, c := range []struct {
		name  string
		r     Record
		trust bool
		wait  time.Duration
	}{
		{
			"another elector's", version(ours, "2", func(l *coordinationv1.Lease) { empty(l); l.Annotations = nil }),
			true,
			0,
		},
		{"another elector's, after a term of ours", version(ours, "2", func(l *coordinationv1.Lease) {
			empty(l)
			l.Spec.AcquireTime, l.Spec.LeaseTransitions = ptr.To(at(s)), ptr.To(int32(1))
		}), true, 0},
		{"ours, emptied by another elector that was deposed", version(ours, "2", func(l *coordinationv1.Lease) {
			empty(l)
			l.Spec.AcquireTime = ptr.To(at(s))
		}), true, 15 * s},
		{"ours, emptied by somebody", version(ours, "2", empty), true, 15 * s},
		{
			"another elector's, not trusted",
			version(ours, "2", func(l *coordinationv1.Lease) { empty(l); l.Annotations = nil }), false, 15 * s,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			observation := NewObservation(15*s, c.trust, nothing)
			observation.Observe(c.r, reading(0))
			wait, _ := observation.TimeToExpiry(reading(0))
			assert.Equal(t, c.wait, wait)
		})
	}
}

func TestReclaimedRecordsNeedNotBeWaitedOut(t *testing.T) {
	const s = time.Second
	mine, others := taken("a", 10*s), version(taken("b", 10*s), "9", nil)
	observation := NewObservation(15*s, false, func(r Record) bool { return r.Holder() == "a" })
	wait := func(r Record, now time.Duration) time.Duration {
		observation.Observe(r, reading(now))
		wait, _ := observation.TimeToExpiry(reading(now))
		return wait
	}
	assert.Zero(t, wait(RecordOf(mine), 0))
	assert.Equal(t, 10*s, wait(others, 1*s))
	assert.Zero(t, wait(RecordOf(mine), 2*s))
	assert.Equal(t, 10*s, wait(Record{}, 3*s), "deleted: others may have had it meanwhile, and may have it still")
}
