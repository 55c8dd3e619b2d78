package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// factory registers the collectors of one package. err is the first error.
type factory struct {
	registry  prometheus.Registerer
	subsystem string
	problem   error
}

func (f *factory) err() error { return f.problem }

// register registers a metric, unless an earlier one has failed, because later ones mostly fail for
// the same reason.
func register[C prometheus.Collector](f *factory, name string, c C) C {
	if f.problem != nil {
		return c
	}
	if f.registry == nil {
		f.problem = fmt.Errorf("metrics: registry of %s: must not be nil", f.subsystem)
		return c
	}
	err := f.registry.Register(c)
	var twice prometheus.AlreadyRegisteredError
	switch {
	case errors.As(err, &twice):
		f.problem = fmt.Errorf("metrics: bellwether_%s_%s is in the registry already: tell two elections or rings "+
			"of a process apart by a label, as in prometheus.WrapRegistererWith(prometheus.Labels{\"election\": "+
			"\"census\"}, registry): %w", f.subsystem, name, err)
	case err != nil:
		f.problem = fmt.Errorf("metrics: register bellwether_%s_%s: %w", f.subsystem, name, err)
	}
	return c
}

func (f *factory) gauge(name, help string) prometheus.Gauge {
	return register(f, name,
		prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}))
}

func (f *factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f, name,
		prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}, labels))
}

func (f *factory) counter(name, help string) prometheus.Counter {
	return register(f, name,
		prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}))
}

func (f *factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f, name,
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}, labels))
}

func (f *factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(f, name, prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "bellwether", Subsystem: f.subsystem, Name: name, Help: help, Buckets: buckets,
	}))
}

func (f *factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(f, name, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "bellwether", Subsystem: f.subsystem, Name: name, Help: help, Buckets: buckets,
	}, labels))
}

// Buckets, in seconds.
var (
	ofRequests  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	ofHandovers = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120}
	ofDrains    = []float64{.01, .05, .1, .5, 1, 5, 10, 15, 30, 60, 120, 300, 600}
	ofFences    = []float64{1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600}
)

// result is the value of the label of that name.
func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// setBool sets a gauge to 1 or 0 at once, because a scrape between two values would report a state
// that never existed.
func setBool(g prometheus.Gauge, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	g.Set(value)
}
