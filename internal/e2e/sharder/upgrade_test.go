package sharder_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// beforeTheSplit is the last commit in which package sharder was one package: since then only the
// code has been moved and renamed, and nothing that is written.
const beforeTheSplit = "1bbea0b99968fbd44e972e7cd6ebd337e4a69474"

// TestUpgradeFromBeforeTheSplit rolls a ring from replicas of that commit to replicas of this one
// and back, one by one, while objects come and a replica is killed. The referee watches both.
func TestUpgradeFromBeforeTheSplit(t *testing.T) {
	t.Parallel()
	earlier, err := shared.EarlierProgram(t.Context(), beforeTheSplit, "internal/e2e/sharder/replica", e2e.Race()...)
	if errors.Is(err, e2e.ErrNoHistory) {
		t.Skip(err)
	}
	require.NoError(t, err)
	f := newFleet(t)
	f.create(many)
	names := []string{"a", "b", "c"}
	replicas := map[string]*e2e.Process{}
	roll := func(name, program string) {
		if before := replicas[name]; before != nil {
			require.NoError(t, before.Terminate())
			f.requireExit(before, 0)
		}
		f.program = program
		replicas[name] = f.start(name)
		f.requireSettled(names...)
	}
	f.program = earlier
	for _, name := range names[:2] {
		replicas[name] = f.start(name)
	}
	roll("c", "") // it joins a ring of the earlier ones
	f.requireWorkedOn(f.list(), names...)
	f.create(many)
	for _, name := range names[:2] {
		roll(name, "")
	}
	f.requireWorkedOn(f.list(), names...)
	for _, name := range names {
		roll(name, earlier) // the way back
	}
	f.program = ""
	f.restart(replicas["a"])
	roll("b", "")
	f.requireSettled(names...)
	f.requireWorkedOn(f.list(), names...)
	f.requireExclusion()
}
