package boottime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/boottime"
)

func TestCountsAtLeastWhatTheMonotonicClockCounts(t *testing.T) {
	t.Parallel()
	outer := boottime.Now()
	begin := time.Now()
	<-time.After(10 * time.Millisecond)
	monotonic := time.Since(begin)
	assert.GreaterOrEqual(t, boottime.Now()-outer, monotonic)
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		boottime.Now()
	}
}
