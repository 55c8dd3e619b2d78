package leaderelection_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// beforeTheRedesign is the last commit before the code was moved and renamed. Its mark of a term is
// longer than that of this commit.
const beforeTheRedesign = "1bbea0b99968fbd44e972e7cd6ebd337e4a69474"

// TestUpgradeFromBeforeTheRedesign has replicas of that commit and of this one succeed each other,
// by expiry and by release, in both directions. Neither recognizes the mark of the other, so each
// waits for the other as for an elector of another kind: D and 5 s more for a silent one, and D for
// one that has released the Lease.
func TestUpgradeFromBeforeTheRedesign(t *testing.T) {
	t.Parallel()
	earlier, err := shared.EarlierProgram(t.Context(), beforeTheRedesign, "internal/e2e/leaderelection/replica",
		e2e.Race()...)
	if errors.Is(err, e2e.ErrNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	c := newCluster(t, shared)
	programs := []string{earlier, ""} // in turns
	c.program = programs[0]
	leader, leading := c.start("a"), "a"
	for i, name := range []string{"b", "c", "d", "e"} {
		c.term(i + 1)
		c.program = programs[(i+1)%2]
		next := c.start(name)
		c.requireWatching(name)
		told := time.Now()
		if i < 2 { // by expiry
			require.NoError(t, leader.Kill())
			term := c.term(i + 2)
			assert.Equal(t, name, term.replica)
			assert.GreaterOrEqual(t, term.first.Sub(c.lastWrite(leading, term.first)), duration-100*time.Millisecond)
			assert.LessOrEqual(t, term.first.Sub(told), 2*duration+c.gauge.Slack(told))
		} else { // by release
			require.NoError(t, leader.Terminate())
			c.requireExit(leader, 0)
			term := c.term(i + 2)
			assert.Equal(t, name, term.replica)
			assert.LessOrEqual(t, term.first.Sub(told), duration+c.gauge.Slack(told))
		}
		leader, leading = next, name
	}
	c.requireOneLeader()
}
