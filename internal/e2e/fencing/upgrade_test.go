package fencing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// earlierCommit is the first one whose records mean what those of this one do: the time that a device
// takes to settle no longer belongs to what a fence that has begun must find unchanged.
const earlierCommit = "2a976c84032c3389885099bc8e8becaab086fb9c"

// TestUpgradeFromAnEarlierCommit has a fencer of that commit and one of this one continue each
// other's fences, in both directions: the first is killed after one of its effects on the world.
// The machine loses its power once, and nothing is left.
func TestUpgradeFromAnEarlierCommit(t *testing.T) {
	t.Parallel()
	earlier, err := shared.EarlierProgram(t.Context(), earlierCommit, "internal/e2e/fencing/replica", e2e.Race()...)
	if errors.Is(err, e2e.ErrNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	for name, programs := range map[string][2]string{"up": {earlier, ""}, "down": {"", earlier}} {
		for effect := 4; effect < effectsOfAFence; effect += 5 {
			t.Run(fmt.Sprintf("%s after effect %d", name, effect), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, false)
				l.database(time.Hour)
				l.program = programs[0]
				dying := l.start(fmt.Sprintf("DIE_AFTER=%d", effect))
				l.checked()
				l.lose()
				l.requireKilled(dying)
				l.program = programs[1]
				next := l.start()
				l.eventually("the next one leads",
					func() bool { return strings.Contains(l.log(next), "started leading") })
				l.reaches(v1alpha1.PhaseFinal)
				l.requireRecovered()
				l.stop(next)
			})
		}
	}
}
