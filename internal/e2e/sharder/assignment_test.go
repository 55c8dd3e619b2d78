package sharder_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestNewObjectsAreAssignedOnSight(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.start("a", "-write")
		f.start("b", "-write")
		f.requireSettled("a", "b")
		before := f.mark()
		f.create(many)
		f.requirePlaced("a", "b")
		f.requireWorkedOn(f.list(), "a", "b")
		f.requireCosts(before, f.list(), cost{sharder: 1})
		f.requireExclusion()
	})
}

func TestObjectsWaitForAShard(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		p := f.start("sharder", "-without-shard")
		f.create(many)
		f.requireLog(p, "started leading")
		assert.Empty(t, f.costs(0))
		f.start("a", "-without-sharder")
		f.requireSettled("a")
		f.requireWorkedOn(f.list(), "a")
		f.requireCosts(0, f.list(), cost{sharder: 1})
		f.requireExclusion()
	})
}
