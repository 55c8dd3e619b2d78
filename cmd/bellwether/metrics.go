package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/proxy"
)

// requests counts what the proxy did, for /metrics in Prometheus' text format. The root module does
// not depend on Prometheus' client library.
type requests struct {
	mu     sync.Mutex
	proxy  *proxy.Proxy // nil until there is one
	counts map[requestKind]int
	added  [len(addedBounds) + 1]int // requests by added latency
	sum    time.Duration
}

type requestKind struct{ resource, verb, outcome string }

// addedBounds are the upper bounds of the buckets of the added latency.
var addedBounds = [...]time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond, time.Second,
}

// of has the objects counted of a proxy.
func (m *requests) of(p *proxy.Proxy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proxy = p
}

func (m *requests) count(
	resource schema.GroupResource, verb string, outcome proxy.Outcome, took, upstream time.Duration,
) {
	added := took - upstream
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[requestKind]int{}
	}
	m.counts[requestKind{resource.String(), verb, string(outcome)}]++
	bucket, _ := slices.BinarySearch(addedBounds[:], added)
	m.added[bucket]++
	m.sum += added
}

// ServeHTTP implements http.Handler.
func (m *requests) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	m.mu.Lock()
	defer m.mu.Unlock()
	help(w, "bellwether_proxy_requests_total", "counter",
		"Requests of the program for resources of the ring, by outcome.")
	for _, kind := range slices.SortedFunc(maps.Keys(m.counts), func(a, b requestKind) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.verb, b.verb),
			cmp.Compare(a.outcome, b.outcome))
	}) {
		_, _ = fmt.Fprintf(w, "bellwether_proxy_requests_total{resource=%q,verb=%q,outcome=%q} %d\n",
			kind.resource, kind.verb, kind.outcome, m.counts[kind])
	}
	const histogram = "bellwether_proxy_added_latency_seconds"
	help(w, histogram, "histogram", "Time that the proxy adds to a request, until the answer or the stream begins.")
	total := 0
	for i, n := range m.added {
		total += n
		bound := "+Inf"
		if i < len(addedBounds) {
			bound = fmt.Sprint(addedBounds[i].Seconds())
		}
		_, _ = fmt.Fprintf(w, "%s_bucket{le=%q} %d\n", histogram, bound, total)
	}
	_, _ = fmt.Fprintf(w, "%s_sum %v\n%s_count %d\n", histogram, m.sum.Seconds(), histogram, total)
	help(w, "bellwether_proxy_objects", "gauge", "Objects of this shard.")
	var objects map[schema.GroupResource]int
	if m.proxy != nil {
		objects = m.proxy.Objects()
	}
	for _, resource := range slices.SortedFunc(maps.Keys(objects), func(a, b schema.GroupResource) int {
		return cmp.Compare(a.String(), b.String())
	}) {
		_, _ = fmt.Fprintf(w, "bellwether_proxy_objects{resource=%q} %d\n", resource, objects[resource])
	}
}

func help(w io.Writer, name, kind, text string) {
	_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, text, name, kind)
}
