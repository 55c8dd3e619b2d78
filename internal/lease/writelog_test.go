package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// renewing is a claim with two renewals under way, sent 3 s and 6 s after the first write, which
// stands.
func renewing(t *testing.T) (c WriteLog, first, second, third *coordinationv1.Lease) {
	t.Helper()
	first = taken("a", 15*time.Second)
	c.Record(first, reading(0))
	require.True(t, c.Match(RecordOf(first)))
	second = RecordOf(first).Renewal(at(3 * time.Second))
	c.Record(second, reading(3*time.Second))
	third = RecordOf(first).Renewal(at(6 * time.Second))
	c.Record(third, reading(6*time.Second))
	return c, first, second, third
}

func TestTermCountsFromTheStoredWrite(t *testing.T) {
	c, first, _, _ := renewing(t)
	require.True(t, c.Match(RecordOf(first)))
	assert.Equal(t, reading(0), c.Sent(), "no renewal has arrived")

	c, first, second, _ := renewing(t)
	require.True(t, c.Match(version(second, "2", nil)))
	assert.Equal(t, reading(3*time.Second), c.Sent(), "not when the latest was sent, which did not come to stand")
	assert.False(t, c.Match(version(first, "3", nil)), "a version before the standing one came back: not our write")

	c, _, _, third := renewing(t)
	require.True(t, c.Match(version(third, "2", nil)))
	assert.Equal(t, reading(6*time.Second), c.Sent())
}

// A read that was sent after 5 s has shown the first write: the second was stored later, if at all.
func TestTermCountsFromTheReadBeforeTheStoredWrite(t *testing.T) {
	c, first, _, _ := renewing(t)
	c.Unstored(reading(5 * time.Second))
	require.True(t, c.Match(RecordOf(first)))
	assert.Equal(t, reading(0), c.Sent(), "it was stored before the read")

	c, _, second, _ := renewing(t)
	c.Unstored(reading(5 * time.Second))
	require.True(t, c.Match(version(second, "2", nil)))
	assert.Equal(t, reading(5*time.Second), c.Sent())

	c, _, _, third := renewing(t)
	c.Unstored(reading(5 * time.Second))
	require.True(t, c.Match(version(third, "2", nil)))
	assert.Equal(t, reading(6*time.Second), c.Sent(), "it was sent after the read")
}

func TestWriteLogMatchesOnlyItsWrites(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*coordinationv1.Lease)
		want   bool
	}{
		{"as written", nil, true},
		{"labelled by somebody", func(l *coordinationv1.Lease) { l.Labels = map[string]string{"a": "b"} }, true},
		{"other holder", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("b") }, false},
		{"no holder", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, false},
		{
			"same identity, other renew time",
			func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(at(time.Second)) }, false,
		},
		{
			"same identity, other term", func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(7)) },
			false,
		},
		{"shorter duration", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(1)) }, false},
		{"given a strategy", func(l *coordinationv1.Lease) {
			l.Spec.Strategy = ptr.To(coordinationv1.OldestEmulationVersion)
		}, false},
		{"created again with our spec", func(l *coordinationv1.Lease) { l.UID = "other" }, false},
		{
			"by another process of our identity",
			func(l *coordinationv1.Lease) { SetProcess(l, "other") }, false,
		},
		{"mark removed by somebody", func(l *coordinationv1.Lease) { l.Annotations = nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			writes := NewWriteLog("process")
			l := taken("a", 15*time.Second)
			writes.Record(l, reading(0))
			require.True(t, writes.Match(RecordOf(l)))
			assert.Equal(t, c.want, writes.Match(version(l, "2", c.change)))
		})
	}
	assert.False(t, new(WriteLog).Match(Record{}))
	assert.False(t, new(WriteLog).Match(RecordOf(taken("a", time.Second))))
}

func TestStampsAreUniqueInWholeSeconds(t *testing.T) {
	var s Stamps
	second := func(n int) metav1.MicroTime {
		return metav1.MicroTime{Time: epoch.Truncate(time.Second).Add(time.Duration(n) * time.Second)}
	}
	assert.Equal(t, second(0), s.Next(epoch), "the same if a server cuts it off")
	assert.Equal(t, second(1), s.Next(epoch.Add(10*time.Millisecond)))
	assert.Equal(t, second(2), s.Next(epoch.Add(-time.Hour)), "the wall clock was set back")
	assert.Equal(t, second(60), s.Next(epoch.Add(time.Minute)))
}
