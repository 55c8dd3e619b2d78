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
	t.Setenv(e2e.SoakEnv, "25ms")
	e2e.Repeat(t, count)
	assert.Greater(t, runs, 2)
}
