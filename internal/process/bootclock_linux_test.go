package process_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// uptime is the kernel's reading of the same clock, in hundredths of a second.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	content, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	seconds, _, _ := strings.Cut(string(content), " ")
	d, err := time.ParseDuration(seconds + "s")
	require.NoError(t, err)
	return d
}

func TestBootClockIsTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	before := uptime(t)
	now := process.SinceBoot()
	after := uptime(t) + 10*time.Millisecond
	assert.GreaterOrEqual(t, now, before)
	assert.LessOrEqual(t, now, after)
}
