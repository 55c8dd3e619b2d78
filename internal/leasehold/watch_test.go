package leasehold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is the stamp of a time after the epoch.
func at(d time.Duration) metav1.MicroTime { return metav1.MicroTime{Time: epoch.Add(d)} }

// taken is the first version of a term that holder begins at an empty place.
func taken(holder string, d time.Duration) *coordinationv1.Lease {
	l := lease.Record{}.Acquired(name, holder, d, at(0))
	l.UID, l.ResourceVersion = "u", "1"
	return l
}

// version returns l as stored at another resourceVersion, after a change of its spec or metadata.
func version(l *coordinationv1.Lease, rv string, change func(*coordinationv1.Lease)) lease.Record {
	l = l.DeepCopy()
	l.ResourceVersion = rv
	if change != nil {
		change(l)
	}
	return lease.RecordOf(l)
}

// TestOlderEventsAreNoLoss tells a holder late what had happened before its term: its Lease was
// created after another of this name had been renewed and deleted.
func TestOlderEventsAreNoLoss(t *testing.T) {
	other := func(l *coordinationv1.Lease) { l.UID = "before" }
	for _, c := range []struct {
		name    string
		version string
		deleted bool
		lost    bool
	}{
		{"an older version", "6", false, false},
		{"an older deletion", "6", true, false},
		{"a later version", "8", false, true},
		{"a later deletion", "8", true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				system := clock.System()
				mine := taken("a", 15*time.Second)
				var writes lease.WriteLog
				writes.Record(mine, system.Now())
				require.True(t, writes.Match(version(mine, "7", nil)))
				candidate := newCandidate(fake.NewClientset(), Config{
					Lease: name, Identity: "a", Timing: lease.Timing{}.WithDefaults(), NotHeld: errNotHeld,
					Clock:  system,
					OnLost: func(*lease.LostError) {}, OnHolder: func(lease.Record) {}, Log: zap.NewNop(),
				})
				candidate.writes = writes
				h := candidate.newHolder()
				h.handleEvent(version(taken("b", 15*time.Second), c.version, other), c.deleted)
				assert.Equal(t, c.lost, h.Term.Lost())
				assert.Empty(t, h.recheck)
				h.Term.lose(lease.ErrTaken, "")
			})
		})
	}
}
