package sharder

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDrainsBeyondTheLimitWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrains(2)
		a, b, c := protocol.Ref{Name: "a"}, protocol.Ref{Name: "b"}, protocol.Ref{Name: "c"}
		now := time.Now()
		require.True(t, d.reserve(t.Context(), a, "s", now, false))
		require.True(t, d.reserve(t.Context(), a, "s", now, false), "has its slot")
		require.True(t, d.reserve(t.Context(), b, "s", now, false))
		require.False(t, d.reserve(t.Context(), c, "s", now, false))
		reserved := make(chan bool)
		go func() { reserved <- d.reserve(t.Context(), c, "s", now, true) }()
		synctest.Wait()
		assert.Empty(t, reserved)
		d.patched(a, false)
		assert.True(t, <-reserved)

		ctx, cancel := context.WithCancel(t.Context())
		go func() { reserved <- d.reserve(ctx, a, "s", now, true) }()
		synctest.Wait()
		cancel()
		assert.False(t, <-reserved)
	})
}

func TestADrainEndsWithItsLabel(t *testing.T) {
	d := newDrains(2)
	a := protocol.Ref{Name: "a"}
	d.reserve(t.Context(), a, "s", time.Now(), false)
	d.see(a, "s", time.Now())
	d.patched(a, true)
	assert.Equal(t, 1, d.len())
	d.gone(a)
	assert.Zero(t, d.len())
}

func TestAnAcknowledgementMayComeBeforeTheAnswerToThePatch(t *testing.T) {
	d := newDrains(2)
	a := protocol.Ref{Name: "a"}
	d.reserve(t.Context(), a, "s", time.Now(), false)
	d.see(a, "s", time.Now())
	d.gone(a)
	d.patched(a, true)
	assert.Zero(t, d.len())
}

// The watch of drains may begin again before the patch has its answer, and its list may come after the
// acknowledgement. Nothing else would free the slot.
func TestAnAcknowledgementThatOnlyAListShowsMayComeBeforeTheAnswerToThePatch(t *testing.T) {
	for name, seen := range map[string]bool{"its drain was seen": true, "its drain was not seen": false} {
		t.Run(name, func(t *testing.T) {
			d := newDrains(1)
			a, b := protocol.Ref{Name: "a"}, protocol.Ref{Name: "b"}
			require.True(t, d.reserve(t.Context(), a, "s", time.Now(), false))
			if seen {
				d.see(a, "s", time.Now())
			}
			d.relist(0, "", nil)
			assert.Equal(t, 1, d.len(), "the patch may be carried out after the list")
			d.patched(a, true)
			assert.Zero(t, d.len())
			assert.True(t, d.reserve(t.Context(), b, "s", time.Now(), false))
		})
	}
}

func TestAPatchThatIsCarriedOutAfterTheListKeepsItsSlot(t *testing.T) {
	d := newDrains(1)
	a := protocol.Ref{Name: "a"}
	d.reserve(t.Context(), a, "s", time.Now(), false)
	d.relist(0, "", nil)
	d.see(a, "s", time.Now())
	d.patched(a, true)
	assert.Equal(t, 1, d.len())
	d.gone(a)
	assert.Zero(t, d.len())
}

func TestAListOfDrainsReplacesWhatWasKnown(t *testing.T) {
	d := newDrains(9)
	a, b, c, other := protocol.Ref{Name: "a"}, protocol.Ref{Name: "b"}, protocol.Ref{Name: "c"}, protocol.Ref{
		Name:     "o",
		Resource: 1,
	}
	d.see(a, "s", time.Now())
	d.see(b, "s", time.Now())
	d.see(other, "s", time.Now())
	d.reserve(t.Context(), c, "s", time.Now(), false) // its patch is under way
	d.relist(0, "", map[protocol.Ref]bool{a: true})
	assert.Equal(t, 3, d.len())
	d.patched(c, true)
	d.relist(0, "", map[protocol.Ref]bool{})
	assert.Equal(t, 1, d.len())
}

func TestDrainsThatTakeTooLongAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrains(9)
		a := protocol.Ref{Name: "a"}
		d.see(a, "s", time.Now())
		time.Sleep(time.Minute)
		assert.Empty(t, d.overdue(time.Now().Add(-2*time.Minute)))
		assert.Len(t, d.overdue(time.Now().Add(-time.Second)), 1)
		assert.Empty(t, d.overdue(time.Now().Add(-time.Second)))
		d.see(a, "t", time.Now()) // the next shard that is asked
		time.Sleep(time.Minute)
		assert.Equal(t, "t", d.overdue(time.Now().Add(-time.Second))[a].shard)
	})
}
