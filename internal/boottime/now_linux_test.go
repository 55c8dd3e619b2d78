package boottime_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/boottime"
)

// uptime is what the kernel tells of the same clock, cut to hundredths of a second.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	content, err := os.ReadFile("/proc/uptime")
	require.NoError(t, err)
	seconds, _, _ := strings.Cut(string(content), " ")
	d, err := time.ParseDuration(seconds + "s")
	require.NoError(t, err)
	return d
}

func TestIsTheTimeSinceBoot(t *testing.T) {
	t.Parallel()
	before := uptime(t)
	now := boottime.Now()
	after := uptime(t) + 10*time.Millisecond
	assert.GreaterOrEqual(t, now, before)
	assert.LessOrEqual(t, now, after)
}
