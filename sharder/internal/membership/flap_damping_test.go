package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestShardsThatComeAndGoAreLetInLaterAndLater(t *testing.T) {
	var f flapDamping
	now := time.Hour
	for range flapsAllowed {
		f.depart("a", now)
		assert.Zero(t, f.wait("a", now))
		now += time.Minute
	}
	for _, want := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute} {
		f.depart("a", now)
		assert.Equal(t, want, f.wait("a", now))
		assert.Equal(t, want-time.Second, f.wait("a", now+time.Second))
		assert.Zero(t, f.wait("a", now+want))
		assert.Zero(t, f.wait("b", now))
		now += time.Second
	}
	now += flapWindow
	assert.Zero(t, f.wait("a", now))
	f.depart("b", now)
	assert.NotContains(t, f.left, "a", "who has behaved is forgotten")
}
