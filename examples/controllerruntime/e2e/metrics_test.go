package e2e_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A replica that uses every package serves the series that the alerts query, with the right values.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(5)
	p := c.start("a")
	require.Eventually(t, func() bool { return len(c.said("a", "answering probes")) > 0 }, patience, poll)
	url := "http://" + c.said("a", "answering probes")[0].Address + "/metrics"
	scrape := func() string {
		response, err := http.Get(url)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(body)
	}
	for _, series := range []string{
		"bellwether_shardlease_held 1", "bellwether_leaderelection_leading 1", "bellwether_sharder_members 1",
		"bellwether_sharder_objects 5",
		"bellwether_sharder_placed_objects 5", `bellwether_sharder_shard_objects{shard="a"} 5`,
		"bellwether_sharder_unsettled 0",
	} {
		require.Eventually(t, func() bool { return strings.Contains(scrape(), "\n"+series+"\n") }, patience, 10*poll,
			series)
	}
	all := scrape()
	alerts, err := os.ReadFile("../../../metrics/alerts.yaml")
	require.NoError(t, err)
	metric := regexp.MustCompile(`bellwether_(?:leaderelection|shardlease|sharder)_\w+`)
	for _, name := range metric.FindAllString(string(alerts), -1) {
		assert.Contains(t, all, "\n"+name)
	}
	require.NoError(t, p.Terminate())
	select {
	case <-p.Done():
	case <-time.After(patience):
		require.Fail(t, "it does not end")
	}
}
