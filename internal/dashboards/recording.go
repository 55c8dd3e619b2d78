package main

import (
	"context"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/bellwether-k8s/bellwether/internal/dashboards/live"
)

// liveInterval is how often the programs of a recording are scraped.
const liveInterval = time.Second

// recording is what real programs have served, and what was done to them. It implements
// live.Recorder.
type recording struct {
	*history
	start, end time.Time // the first event, and the last scrape
	events     []event
}

// event is something that was done to the processes of a job.
type event struct {
	at        time.Time
	job, what string
}

// record runs them, for a minute. It is in the directory of this module.
func record(ctx context.Context) (*recording, error) {
	r := &recording{history: newHistory()}
	return r, live.Run(ctx, ".", liveInterval, r)
}

// Scraped implements live.Recorder.
func (r *recording) Scraped(at time.Time, from live.Target, metrics []*dto.MetricFamily) {
	r.end = at
	r.scrape(map[string]string{"namespace": live.Namespace, "job": from.Job, "instance": from.Instance}, at, metrics)
}

// Happened implements live.Recorder.
func (r *recording) Happened(at time.Time, job, what string) {
	if len(r.events) == 0 {
		r.start = at
	}
	r.events = append(r.events, event{at, job, what})
}
