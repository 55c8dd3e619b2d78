package process_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

func TestBootClockCountsAtLeastTheMonotonicTime(t *testing.T) {
	t.Parallel()
	outer := process.SinceBoot()
	begin := time.Now()
	<-time.After(10 * time.Millisecond)
	monotonic := time.Since(begin)
	assert.GreaterOrEqual(t, process.SinceBoot()-outer, monotonic)
}

func BenchmarkSinceBoot(b *testing.B) {
	for b.Loop() {
		process.SinceBoot()
	}
}
