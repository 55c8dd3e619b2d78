package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	refresh = 50 * time.Millisecond // after which the client looks for servers again
	pause   = 20 * time.Millisecond // between two requests
	answer  = time.Second           // for which it waits for an answer
)

// traffic is a client of several servers, with the outcome of its requests.
type traffic struct {
	published func(ctx context.Context) ([]string, error)
	ports     map[string]string // where a server listens
	request   func(ctx context.Context, url string) error

	mu     sync.Mutex
	known  []string       // guarded by mu: servers that are published
	counts map[string]int // guarded by mu: answers of each since the latest row
	lost   int            // guarded by mu: requests without an answer since the latest row
	marked outcome        // guarded by mu: since the latest mark
}

// outcome counts the outcomes of requests.
type outcome struct {
	sent, failed int
	lastFailed   time.Time
}

func newTraffic(published func(context.Context) ([]string, error), ports map[string]string) *traffic {
	return &traffic{published: published, ports: ports, request: request, counts: map[string]int{}}
}

// send looks for servers and sends requests to one after the other, until ctx ends.
func (t *traffic) send(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	var looked time.Time
	for n := 0; sleep(ctx, pause) == nil; n++ {
		if time.Since(looked) > refresh {
			if known, err := t.published(ctx); err == nil {
				t.mu.Lock()
				t.known = known
				t.mu.Unlock()
			}
			looked = time.Now()
		}
		known := t.targets()
		if len(known) == 0 {
			continue
		}
		server := known[n%len(known)]
		sending.Go(func() {
			err := t.request(ctx, "http://"+t.ports[server])
			if ctx.Err() == nil {
				t.note(server, err, time.Now())
			}
		})
	}
}

// request asks a server on a separate connection.
func request(ctx context.Context, url string) error {
	client := &http.Client{Timeout: answer, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

// note records the outcome of a request.
func (t *traffic) note(server string, err error, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked.sent++
	if err == nil {
		t.counts[server]++
		return
	}
	t.lost++
	t.marked.failed++
	t.marked.lastFailed = at
}

// targets are the servers that are published.
func (t *traffic) targets() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.known)
}

// mark restarts the count of outcomes.
func (t *traffic) mark() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked = outcome{}
}

// since returns the outcomes since the mark.
func (t *traffic) since() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marked
}

// trafficHeader is the header of the rows.
func trafficHeader(servers []string) string {
	return fmt.Sprintf("%8s  %s%8s  %s", "", columns(servers, func(s string) string { return s }), "failed",
		"published")
}

// row is one line of the table: how many answers each server has given since the previous line, and
// which servers are published.
func (t *traffic) row(servers []string, at time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%6.2f s  %s%8d  %s", at.Seconds(),
		columns(servers, func(s string) string { return fmt.Sprint(t.counts[s]) }), t.lost, strings.Join(t.known, " "))
	t.counts, t.lost = map[string]int{}, 0
	return line
}
