package fencejobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestWindow(t *testing.T) {
	c := Config{StartWithin: 10 * time.Second, ClockSkew: 5 * time.Second}
	const s = time.Second
	for _, w := range []struct {
		name                string
		left, timeout       time.Duration
		opens, closes, ends time.Duration
		late                bool
	}{
		{"just asked for", 30 * s, 30 * s, 0, 10 * s, 25 * s, false},
		{"some time ago", 24 * s, 30 * s, -6 * s, 4 * s, 19 * s, false},
		{"too long ago", 20 * s, 30 * s, 0, 0, 0, true},
		{"over", -s, 30 * s, 0, 0, 0, true},
		{"little time", 12 * s, 12 * s, 0, 7 * s, 7 * s, false},
		{"less than the clocks differ", 5 * s, 5 * s, 0, 0, 0, true},
		{"more than there is", 60 * s, 30 * s, 0, 10 * s, 25 * s, false},
	} {
		t.Run(w.name, func(t *testing.T) {
			got, err := open(noon, w.left, w.timeout, c)
			if w.late {
				require.ErrorIs(t, err, errLate)
				return
			}
			require.NoError(t, err)
			assert.Equal(t,
				window{Opens: noon.Add(w.opens), Closes: noon.Add(w.closes), Ends: noon.Add(w.ends), Skew: 5 * s}, got)
			assert.LessOrEqual(t, got.Ends.Add(got.Skew).Sub(noon), w.left,
				"all that may be alive is dead when the call has ended, by whatever clock")
		})
	}
}

// A node with the given clock and kubelet refuses these Jobs.
func TestRefusal(t *testing.T) {
	w := window{
		Opens: noon, Closes: noon.Add(10 * time.Second), Ends: noon.Add(25 * time.Second),
		Skew: 5 * time.Second,
	}
	for _, c := range []struct {
		name       string
		now, mount time.Duration
		refused    string
	}{
		{"in time", 3 * time.Second, 2 * time.Second, ""},
		{"in the last moment", 9999 * time.Millisecond, 2 * time.Second, ""},
		{"late", 10 * time.Second, 9 * time.Second, "too late"},
		{"an hour late", time.Hour, time.Hour, "too late"},
		{"an hour late by a clock that was set back when it had been mounted", 5 * time.Second, time.Hour, "set back"},
		{
			"an hour late, long after it was mounted, by a clock that is behind", 5 * time.Second,
			5*time.Second - time.Hour, "given it",
		},
		{"by a clock that is somewhat behind", -4 * time.Second, -5 * time.Second, ""},
		{"by a clock that is behind", -6 * time.Second, -7 * time.Second, "behind"},
		{"by a clock that is far behind", -time.Hour, -time.Hour, "behind"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := w.refusal(noon.Add(c.now), noon.Add(c.mount))
			if c.refused == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.refused)
		})
	}
}

func TestFresh(t *testing.T) {
	w := window{Opens: noon, Skew: 5 * time.Second}
	fresh := func(now, began, ended time.Duration) error {
		return w.fresh(noon.Add(now), noon.Add(began), noon.Add(ended), 3*time.Second)
	}
	const s = time.Second
	assert.NoError(t, fresh(5*s, 3*s, 4*s))
	assert.NoError(t, fresh(12*s, 3*s, 4*s), "clocks may differ")
	assert.ErrorContains(t, fresh(13*s, 3*s, 4*s), "too long")
	assert.NoError(t, fresh(2*s, -4*s, -3*s), "clocks may differ")
	assert.ErrorContains(t, fresh(2*s, -6*s, -3*s), "before it was asked for")
	assert.NoError(t, fresh(2*s, 3*s, 7*s), "clocks may differ")
	assert.ErrorContains(t, fresh(2*s, 3*s, 8*s), "later than now")
}

func TestTimeLeftOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, time.Minute, left(t.Context(), time.Now(), time.Minute), "no deadline")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.Sleep(20 * time.Second)
		assert.Equal(t, 40*time.Second, left(ctx, time.Now(), time.Minute))
		assert.Equal(t, 10*time.Second, left(ctx, time.Now(), 10*time.Second))
	})
	// A machine that was suspended: what has no monotonic reading is by the wall clock.
	ctx, cancel := context.WithDeadline(t.Context(), noon.Add(time.Minute))
	defer cancel()
	assert.Equal(t, -time.Hour, left(ctx, noon.Add(time.Hour+time.Minute), time.Minute))
}
