package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWorkThatOutlivesItsTermHasLostIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var losses []*LostError
		timing := Timing{}.WithDefaults()
		term := newTerm(Config{Lease: name, Identity: "a", Timing: timing, OnLost: func(err *LostError) { losses = append(losses, err) }}, time.Now())
		term.timer.Stop() // not scheduled yet: the process has just been woken, and work was faster
		time.Sleep(timing.Duration - timing.Margin)
		assert.False(t, term.begin(nil), "too late to begin work")
		err := term.finish()
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, ErrDeadline)
		assert.Len(t, losses, 1)
		term.expire()
		assert.Len(t, losses, 1, "told once")
		assert.Equal(t, err, term.finish())
	})
}

func TestFinishedTermCannotBeLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := Timing{}.WithDefaults()
		term := newTerm(Config{Timing: timing, OnLost: func(*LostError) { t.Error("lost") }}, time.Now())
		require.NoError(t, term.finish())
		assert.Zero(t, term.Remaining())
		time.Sleep(timing.Duration)
		term.lose(ErrTaken, "b")
		term.extend(time.Now())
		assert.NoError(t, term.finish())
		assert.Zero(t, term.Remaining())
	})
}
