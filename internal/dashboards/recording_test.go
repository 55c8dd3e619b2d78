package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withoutData are the panels that show nothing of a recording. TestEveryQueryHasData proves their
// queries.
var withoutData = map[string]string{
	"Throttled": "the clients of package replica have no rate limit",
}

// Real programs run, and what happens in the demo happens to them.
func TestRealPrograms(t *testing.T) {
	r, err := record(t.Context())
	require.NoError(t, err)
	for _, e := range r.events {
		t.Logf("%5.1f s  %s: %s", e.at.Sub(r.start).Seconds(), e.job, e.what)
	}
	t.Logf("%5.1f s  end; %d series", r.end.Sub(r.start).Seconds(), len(r.series))
	engine := testEngine(t)
	t.Run("every query of a dashboard has data", func(t *testing.T) { r.requireData(t, engine) })
	t.Run("pictures show every panel", func(t *testing.T) { r.requirePictures(t, engine) })
	t.Run("alerts query series that are there", func(t *testing.T) { r.requireAlerts(t, engine) })
}

func (r *recording) requireData(t *testing.T, engine *promql.Engine) {
	for _, b := range boards() {
		for _, p := range b.panels() {
			if withoutData[p.title] != "" {
				continue
			}
			for _, q := range p.queries {
				expr := q.filled(liveInterval)
				answer, err := r.during(t.Context(), engine, expr, r.start, r.end, liveInterval)
				require.NoError(t, err, expr)
				assert.NotEmpty(t, answer, "%s: %s: no data: %s", b.title, p.title, expr)
			}
		}
	}
}

func (r *recording) requirePictures(t *testing.T, engine *promql.Engine) {
	for _, b := range boards() {
		picture, err := r.picture(t.Context(), engine, b)
		require.NoError(t, err)
		requireXML(t, picture)
		assert.Less(t, len(picture), 150_000, "bytes")
		empty := 0
		for _, p := range b.panels() {
			assert.Contains(t, string(picture), ">"+escaped(p.title)+"<")
			if withoutData[p.title] != "" {
				empty++
			}
		}
		assert.LessOrEqual(t, strings.Count(string(picture), noData), empty, "panels of %s without data", b.title)
	}
}

func (r *recording) requireAlerts(t *testing.T, engine *promql.Engine) {
	none, err := promQL.ParseMetricSelector("bellwether_there_is_none")
	require.NoError(t, err)
	require.False(t, r.has(none), "the test would find any series")
	for _, rule := range rules(t) {
		expr, err := promQL.ParseExpr(rule.Expr)
		require.NoError(t, err)
		for _, selectors := range parser.ExtractSelectors(expr) {
			assert.True(t, r.has(selectors), "%s: no series for %v", rule.Alert, selectors)
		}
		if rule.Alert == "FenceWaitsForSomebody" {
			assert.NotEmpty(t, r.now(t, engine, rule.Expr, r.end), "the BMC of a lost machine does not answer")
		}
	}
}

// has reports whether there is a series that matches.
func (r *recording) has(all []*labels.Matcher) bool {
	return querier{storage.NoopQuerier(), r.history}.Select(context.Background(), false, nil, all...).Next()
}

func requireXML(t *testing.T, document []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(document))); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
