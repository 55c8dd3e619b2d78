package leaderelection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

func TestKernelDeadlineSparesAProcessWhoseWorkHasEndedAfterTheLoss(t *testing.T) {
	t.Parallel()
	subprocess.InTime(t, 500*time.Millisecond, func(within time.Duration) bool {
		c := loser(t, "released")
		c.Env = append(c.Env, withinEnv+"="+within.String())
		output, err := c.CombinedOutput()
		if !strings.Contains(string(output), "released") {
			require.EqualError(t, err, "signal: killed", string(output))
			return false
		}
		assert.NoError(t, err, string(output))
		return true
	})
}
