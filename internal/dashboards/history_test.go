package main

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

func testEngine(t testing.TB) *promql.Engine {
	e := newEngine()
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// now is the result of an expression at a moment.
func (h *history) now(t testing.TB, e *promql.Engine, expr string, at time.Time) promql.Vector {
	t.Helper()
	result, err := h.at(t.Context(), e, expr, at)
	require.NoError(t, err, expr)
	return result
}

// ask has the series of an expression that have a value within a time.
func (h *history) ask(t testing.TB, e *promql.Engine, expr string, from, to time.Time) []promql.Series {
	t.Helper()
	result, err := h.during(t.Context(), e, expr, from, to, time.Minute)
	require.NoError(t, err, expr)
	return result
}
