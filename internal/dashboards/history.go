package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// history is what Prometheus has scraped.
type history struct {
	series map[string]*series
	// last has the series of the last scrape of each target: those that it does not have any more end.
	last map[string]map[string]bool
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newHistory() *history {
	return &history{series: map[string]*series{}, last: map[string]map[string]bool{}}
}

// scrape adds what a target serves; nothing, if it cannot be reached. Its series end that it does not
// serve any more.
func (h *history) scrape(target map[string]string, at time.Time, families []*dto.MetricFamily) {
	seen, key := map[string]bool{}, labels.FromMap(target).String()
	for _, family := range families {
		for _, m := range family.Metric {
			h.metric(target, family.GetName(), m, func(l labels.Labels, v float64) {
				seen[l.String()] = true
				h.add(l, at.UnixMilli(), v)
			})
		}
	}
	for name := range h.last[key] {
		if !seen[name] {
			h.add(h.series[name].labels, at.UnixMilli(), math.Float64frombits(value.StaleNaN))
		}
	}
	h.last[key] = seen
}

// metric calls add with each series of a metric.
func (*history) metric(target map[string]string, name string, m *dto.Metric, add func(labels.Labels, float64)) {
	one := func(suffix string, v float64, more ...string) {
		b := labels.NewBuilder(labels.FromMap(target)).Set(model.MetricNameLabel, name+suffix)
		for _, l := range m.Label {
			b.Set(l.GetName(), l.GetValue())
		}
		for i := 0; i < len(more); i += 2 {
			b.Set(more[i], more[i+1])
		}
		add(b.Labels(), v)
	}
	switch {
	case m.Histogram != nil:
		for _, bucket := range m.Histogram.Bucket {
			if math.IsInf(bucket.GetUpperBound(), 1) {
				continue // below, as it is in texts only
			}
			bound := strconv.FormatFloat(bucket.GetUpperBound(), 'g', -1, 64)
			one("_bucket", float64(bucket.GetCumulativeCount()), "le", bound)
		}
		one("_bucket", float64(m.Histogram.GetSampleCount()), "le", "+Inf")
		one("_count", float64(m.Histogram.GetSampleCount()))
		one("_sum", m.Histogram.GetSampleSum())
	case m.Counter != nil:
		one("", m.Counter.GetValue())
	default:
		one("", m.Gauge.GetValue())
	}
}

func (h *history) add(l labels.Labels, at int64, v float64) {
	name := l.String()
	if h.series[name] == nil {
		h.series[name] = &series{labels: l}
	}
	h.series[name].samples = append(h.series[name].samples, sample{at, v})
}

// promQL is the language as Prometheus parses it by default.
var promQL = parser.NewParser(parser.Options{})

func newEngine() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL,
	})
}

// execute returns the result of a query. A warning is an error.
func execute(ctx context.Context, q promql.Query) (*promql.Result, error) {
	result := q.Exec(ctx)
	return result, errors.Join(result.Err, problems(result.Warnings))
}

// at is the result of an expression at a moment.
func (h *history) at(ctx context.Context, e *promql.Engine, expr string, at time.Time) (promql.Vector, error) {
	q, err := e.NewInstantQuery(ctx, h, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result, err := execute(ctx, q)
	if err != nil {
		return nil, err
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// during is the result of an expression at moments that are so far apart. NaN is no value.
func (h *history) during(
	ctx context.Context, e *promql.Engine, expr string, from, to time.Time, step time.Duration,
) ([]promql.Series, error) {
	q, err := e.NewRangeQuery(ctx, h, nil, expr, from, to, step)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result, err := execute(ctx, q)
	if err != nil {
		return nil, err
	}
	matrix, err := result.Matrix()
	if err != nil {
		return nil, err
	}
	var with []promql.Series
	for _, s := range matrix {
		var values []promql.FPoint
		for _, p := range s.Floats {
			if !math.IsNaN(p.F) {
				values = append(values, p)
			}
		}
		if len(values) > 0 {
			with = append(with, promql.Series{Metric: s.Metric.Copy(), Floats: values})
		}
	}
	return with, nil
}

// problems are those of an expression. That a process was started again is none: of its counters only
// those go back that were not 0, and a histogram of several processes needs mending then.
func problems(all annotations.Annotations) error {
	var errs []error
	for _, err := range all.AsErrors() {
		if !errors.Is(err, annotations.HistogramQuantileForcedMonotonicityInfo) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Querier implements storage.Queryable.
func (h *history) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), h}, nil
}

type querier struct {
	storage.Querier
	history *history
}

// Select returns the series that match.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, all ...*labels.Matcher) storage.SeriesSet {
	found := &found{at: -1}
series:
	for _, s := range q.history.series {
		for _, m := range all {
			if !m.Matches(s.labels.Get(m.Name)) {
				continue series
			}
		}
		found.series = append(found.series, storage.NewListSeries(s.labels, s.samples))
	}
	return found
}

// found implements storage.SeriesSet.
type found struct {
	series []storage.Series
	at     int
}

func (f *found) Next() bool {
	f.at++
	return f.at < len(f.series)
}

func (f *found) At() storage.Series { return f.series[f.at] }

func (*found) Err() error { return nil }

func (*found) Warnings() annotations.Annotations { return nil }

// sample implements chunks.Sample.
type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.v }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
