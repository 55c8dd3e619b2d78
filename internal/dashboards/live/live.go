package live

import (
	"context"
	"errors"
	"os"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
)

// Target is a process that serves metrics.
type Target struct{ Job, Instance string }

// Namespace is that of all targets.
const Namespace = "default"

// Jobs are those of the targets.
const (
	Digests = "digests"
	Fencer  = "fencer"
	Daemon  = "daemon"
)

// Recorder is called with what happens, by one goroutine at a time.
type Recorder interface {
	// Scraped has what a process serves, nothing if it cannot be reached.
	Scraped(at time.Time, from Target, metrics []*dto.MetricFamily)
	// Happened has what was done to the processes of a job.
	Happened(at time.Time, job, what string)
}

// Run builds the programs, and plays everything once. Processes are scraped at this interval.
// Directory is internal/dashboards.
func Run(ctx context.Context, directory string, interval time.Duration, r Recorder) (failed error) {
	dir, err := os.MkdirTemp("", "bellwether-live-")
	if err != nil {
		return err
	}
	defer func() {
		if failed == nil || ctx.Err() != nil { // or the logs say why
			failed = errors.Join(failed, os.RemoveAll(dir))
		}
	}()
	s, err := newStage(ctx, dir, r)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, s.close()) }()
	for _, p := range programs {
		if err := s.build(ctx, directory, p); err != nil {
			return err
		}
	}
	playing, end := context.WithCancel(ctx)
	scraped := make(chan struct{})
	go func() {
		defer close(scraped)
		s.scraper.run(playing, interval)
	}()
	defer func() {
		end()
		<-scraped
	}()
	acts, acting := errgroup.WithContext(ctx)
	for _, play := range []func(context.Context, *stage) error{playOperators, playFencers, playDaemons} {
		acts.Go(func() error { return play(acting, s) })
	}
	return acts.Wait()
}
