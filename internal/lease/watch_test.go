package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

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
				system, guard := clock.System(), NewGuard(name, errNotHeld, GuardConfig{})
				mine := taken("a", 15*time.Second)
				var writes WriteLog
				writes.Record(mine, system.Now())
				require.True(t, writes.Match(version(mine, "7", nil)))
				h := newHolder(Config{
					Lease: name, Identity: "a", Timing: Timing{}.WithDefaults(), Clock: system, Guard: guard,
					OnLost: func(*LostError) {}, OnHolder: func(Record) {},
				}, nil, &Stamps{}, &badge{}, writes)
				h.handleEvent(version(taken("b", 15*time.Second), c.version, other), c.deleted)
				assert.Equal(t, c.lost, h.Lost())
				assert.Empty(t, h.recheck)
				h.lose(ErrTaken, "")
			})
		})
	}
}
