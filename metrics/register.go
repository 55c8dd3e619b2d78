package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// factory registers the collectors of one package. err returns all errors.
type factory struct {
	registry  prometheus.Registerer
	subsystem string
	errs      []error
}

func (f *factory) err() error { return errors.Join(f.errs...) }

func register[C prometheus.Collector](f *factory, c C) C {
	f.errs = append(f.errs, f.registry.Register(c))
	return c
}

func (f *factory) gauge(name, help string) prometheus.Gauge {
	return register(f,
		prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}))
}

func (f *factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f,
		prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}, labels))
}

func (f *factory) counter(name, help string) prometheus.Counter {
	return register(f,
		prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}))
}

func (f *factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f,
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "bellwether", Subsystem: f.subsystem, Name: name,
			Help: help,
		}, labels))
}

func (f *factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(f, prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "bellwether", Subsystem: f.subsystem, Name: name, Help: help, Buckets: buckets,
	}))
}

func (f *factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return register(f, prometheus.NewHistogramVec(prometheus.HistogramOpts{
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

// setBool sets a gauge to 1 or 0 at once: a scrape between two values would see what never was.
func setBool(g prometheus.Gauge, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	g.Set(value)
}
