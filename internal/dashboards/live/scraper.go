package live

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scraper reads the metrics of all processes at the same moments. Safe for concurrent use.
type scraper struct {
	recorder Recorder
	client   *http.Client

	mu      sync.Mutex
	targets map[Target]string              // guarded by mu: the addresses
	last    map[Target][]*dto.MetricFamily // guarded by mu
}

func newScraper(r Recorder) *scraper {
	return &scraper{
		recorder: r, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		targets: map[Target]string{}, last: map[Target][]*dto.MetricFamily{},
	}
}

// add begins to scrape a process, or the next one of that name.
func (s *scraper) add(t Target, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets[t] = "http://" + address + "/metrics"
	delete(s.last, t) // what the one before it has reported
}

// happened records what was done.
func (s *scraper) happened(job, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorder.Happened(time.Now(), job, what)
}

// run scrapes until ctx ends.
func (s *scraper) run(ctx context.Context, interval time.Duration) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.scrape(ctx, interval)
		}
	}
}

// scrape reads all targets once. An answer that comes too late is none.
func (s *scraper) scrape(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	at := time.Now()
	s.mu.Lock()
	answers := map[Target][]*dto.MetricFamily{}
	var reading sync.WaitGroup
	var mu sync.Mutex
	for t, url := range s.targets {
		reading.Go(func() {
			answer, err := s.read(ctx, url)
			if err != nil {
				answer = nil
			}
			mu.Lock()
			defer mu.Unlock()
			answers[t] = answer
		})
	}
	s.mu.Unlock()
	reading.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, answer := range answers {
		s.last[t] = answer
		s.recorder.Scraped(at, t, answer)
	}
}

// read returns the metrics of this project that a process serves.
func (s *scraper) read(ctx context.Context, url string) ([]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	var all []*dto.MetricFamily
	for name, family := range families {
		if strings.HasPrefix(name, "bellwether_") {
			all = append(all, family)
		}
	}
	return all, err
}

// value is the last value of a gauge or counter of a process. Labels are pairs of names and values.
func (s *scraper) value(of Target, name string, labels ...string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, family := range s.last[of] {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.Metric {
			if !has(m, labels) {
				continue
			}
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue()
			case m.Histogram != nil:
				return float64(m.Histogram.GetSampleCount())
			default:
				return m.Gauge.GetValue()
			}
		}
	}
	return 0
}

func has(m *dto.Metric, labels []string) bool {
	found := 0
	for _, l := range m.Label {
		for i := 0; i < len(labels); i += 2 {
			if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
				found++
			}
		}
	}
	return found == len(labels)/2
}
