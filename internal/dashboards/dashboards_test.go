package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// Every query of a dashboard has an answer when everything has happened, and its legend has only
// labels that are there.
func TestEveryQueryHasData(t *testing.T) {
	h, end := busyHistory(t)
	engine := newEngine(t)
	for _, b := range boards() {
		for _, p := range b.panels() {
			for _, q := range p.queries {
				expr := filled(q.full())
				require.NotContains(t, expr, "$", "a variable has no value here")
				answer := h.during(t, engine, expr, end.Add(-10*time.Minute), end)
				if !assert.NotEmpty(t, answer, "%s: %s: no data: %s", b.title, p.title, expr) {
					continue
				}
				for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(q.legend, -1) {
					assert.True(t, answer[0].Metric.Has(label[1]), "%s: %s: no label %s", b.title, p.title, label[1])
				}
			}
		}
		for _, label := range []string{"namespace", "job"} {
			for _, s := range h.at(t, engine, b.found, end) {
				assert.NotEmpty(t, s.Metric.Get(label), "a choice of %s", label)
			}
		}
		assert.NotEmpty(t, h.at(t, engine, b.found, end), b.found)
	}
	missing := h.during(t, engine, "bellwether_there_is_none", end.Add(-10*time.Minute), end)
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

func (b board) panels() (all []panel) {
	for _, r := range b.rows {
		all = append(all, r.panels...)
	}
	return all
}

// filled has values for Grafana's variables.
func filled(expr string) string {
	return strings.NewReplacer("$namespace", ".*", "$job", ".*", "$__rate_interval", "1m").Replace(expr)
}

// during has the series of an expression that have a value within a time.
func (h *history) during(t *testing.T, e *promql.Engine, expr string, from, to time.Time) (with []promql.Series) {
	t.Helper()
	q, err := e.NewRangeQuery(t.Context(), h, nil, expr, from, to, time.Minute)
	require.NoError(t, err, expr)
	defer q.Close()
	result := q.Exec(t.Context())
	require.NoError(t, result.Err, expr)
	require.Empty(t, result.Warnings, expr)
	matrix, err := result.Matrix()
	require.NoError(t, err, expr)
	for _, s := range matrix {
		for _, p := range s.Floats {
			if !math.IsNaN(p.F) {
				with = append(with, promql.Series{Metric: s.Metric.Copy()})
				break
			}
		}
	}
	return with
}
