package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// What is in metrics/dashboards is what this program writes, and what Grafana's types allow.
func TestDashboardsAreWritten(t *testing.T) {
	for _, b := range boards() {
		want, err := b.json()
		require.NoError(t, err)
		have, err := os.ReadFile(filepath.Join(directory, b.name+".json"))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have), "run: go run -C internal/dashboards .")
		var d dashboard.Dashboard //nolint:staticcheck // see build
		require.NoError(t, json.Unmarshal(have, &d))
		again, err := json.Marshal(d)
		require.NoError(t, err)
		assert.JSONEq(t, string(have), string(again), "Grafana's types leave something out")
		assert.NoError(t, d.Validate())
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	require.NoError(t, err)
	assert.Len(t, files, len(boards()))
}

// optional are the labels that tell several elections or rings of a job apart.
var optional = []string{"election", "ring"}

// Every query of a dashboard has an answer when everything has happened. Its legend has only labels
// that are there, and enough of them: no two lines have one name.
func TestEveryQueryHasData(t *testing.T) {
	h, end := busyHistory(t)
	engine := testEngine(t)
	for _, b := range boards() {
		for _, p := range b.panels() {
			for _, q := range p.queries {
				expr := q.filled(scrapeInterval)
				require.NotContains(t, expr, "$", "a variable has no value here")
				answer := h.ask(t, engine, expr, end.Add(-10*time.Minute), end)
				if !assert.NotEmpty(t, answer, "%s: %s: no data: %s", b.title, p.title, expr) {
					continue
				}
				for _, label := range inLegend.FindAllStringSubmatch(q.legend, -1) {
					assert.True(t, slices.Contains(optional, label[1]) || answer[0].Metric.Has(label[1]),
						"%s: %s: no label %s", b.title, p.title, label[1])
				}
				names := map[string]bool{}
				for _, s := range answer {
					names[q.name(s.Metric)] = true
				}
				assert.Len(t, names, len(answer), "%s: %s: lines with one name: %s", b.title, p.title, expr)
			}
		}
		for _, label := range []string{"namespace", "job"} {
			for _, s := range h.now(t, engine, b.found, end) {
				assert.NotEmpty(t, s.Metric.Get(label), "a choice of %s", label)
			}
		}
		assert.NotEmpty(t, h.now(t, engine, b.found, end), b.found)
	}
	missing := h.ask(t, engine, "bellwether_there_is_none", end.Add(-10*time.Minute), end)
	assert.Empty(t, missing, "the test would find data for anything")
}

// The dashboards show every metric but those of endpoints.
func TestEveryMetricIsShown(t *testing.T) {
	h, _ := busyHistory(t)
	var shown strings.Builder
	for _, b := range boards() {
		for _, p := range b.panels() {
			for _, q := range p.queries {
				shown.WriteString(q.expr)
			}
		}
	}
	for _, s := range h.series {
		name := s.labels.Get("__name__")
		if strings.HasPrefix(name, "bellwether_endpoints_") {
			continue
		}
		name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		assert.Regexp(t, name+`(_bucket)?{`, shown.String())
	}
}

// What happens for the first time after a process has started counts, though no series of it was there
// before. It counts for 15 minutes, also if the process has ended meanwhile.
func TestFirstTimeCounts(t *testing.T) {
	var h *history
	var happened time.Time
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.pass(5 * time.Minute)
		fence := &v1alpha1.NodeFence{Node: "n"}
		c.fencer().OnTransition(fence, "Begun")
		c.pass(time.Minute)
		happened = time.Now()
		c.fencer().OnTransition(fence, "Held")
		c.pass(5 * time.Minute)
		c.fencers[0].down = true
		c.pass(15 * time.Minute)
		h = c.history
	})
	steps := fencing().panels()[3]
	require.Equal(t, "Steps", steps.title)
	count := func(after time.Duration) map[string]float64 {
		counts := map[string]float64{}
		for _, s := range h.now(t, testEngine(t), steps.queries[0].filled(scrapeInterval), happened.Add(after)) {
			counts[s.Metric.Get("transition")] = s.F
		}
		return counts
	}
	assert.Equal(t, map[string]float64{"Begun": 1}, count(0))
	assert.Equal(t, map[string]float64{"Begun": 1, "Held": 1}, count(time.Minute))
	assert.Equal(t, map[string]float64{"Begun": 1, "Held": 1}, count(10*time.Minute), "the process has ended")
	assert.Empty(t, count(21*time.Minute))
}

func busyHistory(t *testing.T) (h *history, end time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.pass(5 * time.Minute)
		for range 10 {
			c.everything()
			c.pass(time.Minute)
		}
		h, end = c.history, time.Now()
	})
	return h, end
}
