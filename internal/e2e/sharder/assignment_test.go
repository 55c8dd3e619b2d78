package sharder_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

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
		before := time.Now()
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
		assert.Empty(t, f.costs(time.Time{}))
		f.start("a", "-without-sharder")
		f.requireSettled("a")
		f.requireWorkedOn(f.list(), "a")
		f.requireCosts(time.Time{}, f.list(), cost{sharder: 1})
		f.requireExclusion()
	})
}

func TestSettledRingCostsItsScansOnly(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("sharder", "-without-shard", "-scan-interval=1s")
		f.start("a", "-without-sharder")
		f.requireSettled("a")
		all := []string{"scan", strconv.Itoa(many), strconv.Itoa(many)}
		f.requireSaid("sharder", f.said("sharder", all...), all...)
		before, scans := time.Now(), f.said("sharder", all...)
		f.requireSaid("sharder", scans+3, all...)
		requests := map[string]int{}
		for _, e := range f.audited(before) {
			if part(e) == "sharder" || part(e) == "shard" {
				requests[fmt.Sprintf("%s %s %s", part(e), e.Verb, e.Resource)]++
			}
		}
		delete(requests, "sharder watch configmaps") // that the API server has ended
		t.Logf("%d scans: %v", f.said("sharder", all...)-scans, requests)
		assert.Equal(t, []string{"sharder list configmaps"}, slices.Collect(maps.Keys(requests)))
		assert.InDelta(t, f.said("sharder", all...)-scans, requests["sharder list configmaps"], 1, "a page each")
	})
}
