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
		c := newCluster(t)
		c.start("a", "-write")
		c.start("b", "-write")
		c.requireSettled("a", "b")
		before := time.Now()
		c.create(many)
		c.requirePlaced("a", "b")
		c.requireWorkedOn(c.list(), "a", "b")
		c.requireCosts(before, c.list(), cost{sharder: 1})
		c.requireExclusion()
	})
}

func TestObjectsWaitForAShard(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		p := c.start("sharder", "-without-shard")
		c.create(many)
		c.requireLog(p, "started leading")
		assert.Empty(t, c.costs(time.Time{}))
		c.start("a", "-without-sharder")
		c.requireSettled("a")
		c.requireWorkedOn(c.list(), "a")
		c.requireCosts(time.Time{}, c.list(), cost{sharder: 1})
		c.requireExclusion()
	})
}

func TestSettledRingCostsItsScansOnly(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("sharder", "-without-shard", "-scan-interval=1s")
		c.start("a", "-without-sharder")
		c.requireSettled("a")
		all := []string{"scan", strconv.Itoa(many), strconv.Itoa(many)}
		c.requireSaid("sharder", c.said("sharder", all...), all...)
		before, scans := time.Now(), c.said("sharder", all...)
		c.requireSaid("sharder", scans+3, all...)
		requests := map[string]int{}
		for _, e := range c.audited(before) {
			if part(e) == "sharder" || part(e) == "shard" {
				requests[fmt.Sprintf("%s %s %s", part(e), e.Verb, e.Resource)]++
			}
		}
		delete(requests, "sharder watch configmaps") // that the API server has ended
		t.Logf("%d scans: %v", c.said("sharder", all...)-scans, requests)
		assert.Equal(t, []string{"sharder list configmaps"}, slices.Collect(maps.Keys(requests)))
		assert.InDelta(t, c.said("sharder", all...)-scans, requests["sharder list configmaps"], 1, "a page each")
	})
}
