package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const families = 30

func TestFamiliesMoveWhenReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(families)
	a := c.start("a")
	c.requireFamilies("a")
	c.requireCensus(families)
	assert.Zero(t, c.moves(), "children are stamped when they are created")
	b := c.start("b")
	c.requireFamilies("a", "b")
	c.eventually(func() bool { return c.moves() > 0 }, "they do not move with their parents")
	c.change(map[string]string{"of": "two"})
	c.requireFamilies("a", "b")

	c.kill("b")
	c.requireFamilies("a")
	require.NoError(t, b.Restart())
	c.start("c")
	c.requireFamilies("a", "b", "c")
	assert.Equal(t, []string{"a"}, c.counters(), "only the leader counts")

	require.NoError(t, a.Terminate())
	c.requireExit(a, 0)
	c.requireFamilies("b", "c")
	c.create(1)
	c.requireCensus(families + 1)
	c.requireFamilies("b", "c")
	var who []string
	c.eventually(func() bool { // a write may be visible before the audit log has it
		who = c.counters()
		return len(who) >= 2
	}, "only one replica counts")
	require.Len(t, who, 2)
	assert.Contains(t, []string{"b", "c"}, who[1], "and then its successor")
	c.requireExclusion()
}

func TestTheLeaseIsReleasedWhenTheWorkHasEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(2)
	a := c.start("a", "-work-takes=1s")
	c.eventually(func() bool { return len(c.said("a", "work begins")) > 0 }, "a does not work")
	require.NoError(t, a.Terminate())
	told := time.Now()
	c.requireExit(a, 0)
	t.Logf("ended %v after SIGTERM", time.Since(told))
	begun, ended, released := c.said("a", "work begins"), c.said("a", "work has ended"), c.said("a",
		"shard lease released")
	require.Len(t, released, 1)
	assert.Len(t, ended, len(begun))
	for _, l := range ended {
		assert.LessOrEqual(t, l.Time, released[0].Time)
	}
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Empty(t, *lease.Spec.HolderIdentity)
	c.start("b")
	c.requireFamilies("b")
	c.requireExclusion()
}

func TestDeposedLeaderWorksOnAndLeadsAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(2)
	a := c.start("a")
	c.requireFamilies("a")
	c.requireCensus(2)
	require.NoError(t,
		c.client.CoordinationV1().Leases(c.namespace).Delete(t.Context(), ring+"-sharder", metav1.DeleteOptions{}))
	c.eventually(func() bool { return len(c.said("a", "not the sharder any more")) == 1 },
		"a does not see that it is deposed")
	c.create(1)
	c.requireFamilies("a")
	c.requireCensus(3)
	require.NoError(t, a.Terminate())
	c.requireExit(a, 0)
}

func TestProbesAreAnsweredWhileAReplicaWaitsForItsLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	probe := func(replica, path string) int {
		said := c.said(replica, "answering probes")
		require.NotEmpty(t, said)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" +
			said[0].Address + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	first := c.start("first", "-identity=a")
	c.eventually(func() bool {
		return len(c.said("first", "answering probes")) > 0 && probe("first", "/readyz") == http.StatusOK
	}, "the first is never ready")
	assert.Equal(t, http.StatusOK, probe("first", "/livez"))

	second := c.start("second", "-identity=a")
	waits := "another process of the same identity holds the lease: only one of them works"
	c.eventually(func() bool { return len(c.said("second", waits)) > 0 }, "the second does not wait")
	assert.Equal(t, http.StatusOK, probe("second", "/livez"))
	assert.NotEqual(t, http.StatusOK, probe("second", "/readyz"))
	third := c.start("third", "-identity=a")
	c.eventually(func() bool { return len(c.said("third", waits)) > 0 }, "the third does not wait")
	require.NoError(t, third.Terminate())
	c.requireExit(third, 0)

	require.NoError(t, first.Terminate())
	c.requireExit(first, 0)
	c.eventually(func() bool { return probe("second", "/readyz") == http.StatusOK }, "the second is never ready")
	require.NoError(t, second.Terminate())
	c.requireExit(second, 0)
}
