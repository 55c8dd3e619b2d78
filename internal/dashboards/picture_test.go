package main

import (
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
)

func TestScaleHasFewRoundSteps(t *testing.T) {
	for _, c := range []struct {
		highest float64
		unit    string
		want    scale
	}{
		{0, each, scale{1, 1}},
		{0.99, each, scale{0.2, 1}},
		{1, seconds, scale{0.2, 1}},
		{0.0214, seconds, scale{0.005, 0.025}},
		{146, count, scale{50, 150}},
		{3, count, scale{1, 3}},
		{1.02, count, scale{1, 2}},
		{600, seconds, scale{200, 600}},
	} {
		got := newScale(c.highest, c.unit)
		assert.InDelta(t, c.want.step, got.step, 1e-9, "step up to %v", c.highest)
		assert.InDelta(t, c.want.top, got.top, 1e-9, "top of %v", c.highest)
		assert.LessOrEqual(t, len(got.ticks()), 6, "ticks up to %v", c.highest)
	}
}

func TestValuesAreNamedInTheirUnit(t *testing.T) {
	assert.Equal(t, "20 ms", named(0.02, seconds))
	assert.Equal(t, "1.5 s", named(1.5, seconds))
	assert.Equal(t, "0.2/s", named(0.1+0.1, each))
	assert.Equal(t, "200", named(200, count))
	assert.Equal(t, "Yes", named(1, yesOrNo))
}

// A line has a gap where a series has one, and no points that do not show.
func TestLinesAreOfStretches(t *testing.T) {
	all := stretches([]promql.FPoint{{T: 1000, F: 1}, {T: 2000, F: 1}, {T: 5000, F: 2}})
	assert.Equal(t, [][]promql.FPoint{{{T: 1000, F: 1}, {T: 2000, F: 1}}, {{T: 5000, F: 2}}}, all)
	assert.Equal(t, []point{{0, 1}, {2, 1}, {3, 4}}, corners([]point{{0, 1}, {1, 1}, {2, 1}, {3, 4}}))
}
