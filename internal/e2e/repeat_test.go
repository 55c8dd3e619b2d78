package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestRepeat(t *testing.T) {
	runs := 0
	count := func(*testing.T) {
		runs++
		<-time.After(10 * time.Millisecond)
	}
	t.Setenv(e2e.SoakEnv, "")
	e2e.Repeat(t, count)
	assert.Equal(t, 1, runs)
	// a run may take longer than it means to, so it is not their number that tells
	const duration = 2 * time.Second
	t.Setenv(e2e.SoakEnv, duration.String())
	begin := time.Now()
	e2e.Repeat(t, count)
	assert.GreaterOrEqual(t, time.Since(begin), duration)
	assert.Greater(t, runs, 1)
}
