package sharder_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder"
)

// audited returns the cluster's requests since then, by the audit log. The log shows a request when
// it has been answered. Its effects may be visible earlier.
func (c *cluster) audited(since time.Time) []e2e.AuditEvent {
	c.t.Helper()
	c.markers++
	marker := fmt.Sprintf("marker-%d", c.markers)
	_, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(c.t.Context(), marker, metav1.GetOptions{})
	require.True(c.t, apierrors.IsNotFound(err), err)
	marked := false
	c.eventually(func() bool {
		events, err := c.cp.Audit()
		require.NoError(c.t, err)
		for _, e := range events[c.read:] {
			marked = marked || e.Namespace == c.namespace && e.Name == marker
			if strings.HasPrefix(e.User, c.namespace+"-") {
				c.requests = append(c.requests, e)
			}
		}
		c.read = len(events)
		return marked
	}, "the audit log does not show %s", marker)
	return slices.DeleteFunc(slices.Clone(c.requests), func(e e2e.AuditEvent) bool { return e.Received.Before(since) })
}

// part says which part of a replica has made a request: sharder, shard, work, lease or elector.
func part(e e2e.AuditEvent) string {
	name, _, _ := strings.Cut(e.UserAgent, "/")
	return name
}

// cost is how often the parts of all replicas have changed one object.
type cost struct{ sharder, shard int }

func (c cost) String() string {
	return fmt.Sprintf("%d by the sharder, %d by shards", c.sharder, c.shard)
}

// lag is how far the audit log may be behind: what a request has changed can be seen before it is
// answered.
const lag = 10 * time.Second

// costsWhen returns costs when they are enough, or after a while.
func (c *cluster) costsWhen(since time.Time, enough func(map[string]cost) bool) (costs map[string]cost) {
	c.t.Helper()
	waitFor(c.t.Context(), lag, func() bool {
		costs = c.costs(since)
		return enough(costs)
	})
	return costs
}

// costs returns what each object has cost since then, by name.
func (c *cluster) costs(since time.Time) map[string]cost {
	c.t.Helper()
	costs, _ := c.patches(since)
	return costs
}

// patches returns the number of patches of each object since then, by name, and the number that may
// have been made besides: the log does not show the outcome of a patch if its client was gone
// before the answer.
func (c *cluster) patches(since time.Time) (certain, perhaps map[string]cost) {
	c.t.Helper()
	certain, perhaps = map[string]cost{}, map[string]cost{}
	for _, e := range c.audited(since) {
		costs := certain
		switch {
		case e.Verb != "patch" || e.Code > 200 && e.Code < 499:
			continue
		case e.Code != 200:
			costs = perhaps
			c.t.Logf("a patch of %s by %s whose outcome is unknown: %d", e.Name, e.UserAgent, e.Code)
		}
		c := costs[e.Name]
		switch part(e) {
		case "sharder":
			c.sharder++
		case "shard":
			c.shard++
		default:
			continue
		}
		costs[e.Name] = c
	}
	return certain, perhaps
}

// requireCosts asserts what changing the labels and records of objects has cost since then: that
// much for each of these objects, and nothing for any other.
func (c *cluster) requireCosts(since time.Time, objects []object, each cost) {
	c.t.Helper()
	want := map[string]cost{}
	for _, o := range objects {
		want[o.GetName()] = each
	}
	c.requireEach(since, want)
}

// requireEach asserts what each object has cost since then, by name.
func (c *cluster) requireEach(since time.Time, want map[string]cost) {
	c.t.Helper()
	var got map[string]cost
	waitFor(c.t.Context(), lag, func() bool {
		var perhaps map[string]cost
		got, perhaps = c.patches(since)
		for name, more := range perhaps {
			c, w := got[name], want[name]
			got[name] = cost{
				min(c.sharder+more.sharder, max(c.sharder, w.sharder)),
				min(c.shard+more.shard, max(c.shard, w.shard)),
			}
			if got[name] == (cost{}) {
				delete(got, name)
			}
		}
		return maps.Equal(want, got)
	})
	assert.Equal(c.t, want, got)
}

// leaseWrites returns how often a sharder has written the lease of a shard since then.
func (c *cluster) leaseWrites(since time.Time, shard string) (writes []e2e.AuditEvent) {
	c.t.Helper()
	for _, e := range c.audited(since) {
		if part(e) == "sharder" && e.Resource == "leases" && e.Name == shard && e.Write() && e.Code < 300 {
			writes = append(writes, e)
		}
	}
	return writes
}

// requireOneChange asserts what the sharders have written since then besides leases and the
// objects: the ring's history twice, when the membership changed and when that was settled.
func (c *cluster) requireOneChange(since time.Time) {
	c.t.Helper()
	var writes, lists int
	waitFor(c.t.Context(), lag, func() bool {
		writes, lists = 0, 0
		for _, e := range c.audited(since) {
			switch {
			case part(e) != "sharder" || e.Code >= 300:
			case e.Name == sharder.HistoryName(ringName) && e.Write():
				writes++
			case e.Resource == "configmaps" && e.Verb == "list":
				lists++
			}
		}
		return writes == 2
	})
	assert.Equal(c.t, 2, writes, "writes of the ring's history")
	c.t.Logf("%d lists of objects", lists)
}
