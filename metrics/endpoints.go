package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// Endpoints registers the metrics of an instance and of what it observes of the others.
func Endpoints(registry prometheus.Registerer) (endpoints.Hooks, error) {
	f := &factory{registry: registry, subsystem: "endpoints"}
	rounds := f.counters("rounds_total", "Rounds: error if not all could be done.", "result")
	took := f.histogram("round_duration_seconds", "How long rounds took.", ofRequests)
	entries := f.gauges("entries", "Entries in the store.", "state")
	oldest := f.gauge("oldest_entry_age_seconds", "How long the oldest entry has been seen without a heartbeat.")
	last := f.gauge("last_heartbeat_timestamp_seconds",
		"When this instance refreshed its entry last; 0 before the first time.")
	ready := f.gauge("ready", "1 while this instance should be published; 0 before its first round, and while it is "+
		"withdrawn: not ready, or about to end.")
	writes := f.counters("writes_total", "Writes that were carried out.", "of")
	published := f.gauge("published", "Published endpoints, as this instance last wrote them.")
	expired := f.counter("expired_total", "Entries of others that were removed because they were silent.")
	malformed := f.counter("malformed_total", "Entries that no instance can have written.")
	expireAfter := f.gauge("expire_after_seconds",
		"How long an entry may be silent before it is removed, once the run-time setting has changed.")
	return endpoints.Hooks{
		OnRound: func(r endpoints.Round) {
			rounds.WithLabelValues(result(r.Err)).Inc()
			took.Observe(r.Took.Seconds())
			for of, n := range map[string]int{
				"heartbeat": r.Heartbeats, "publication": r.Publications,
				"removal": r.Removals,
			} {
				writes.WithLabelValues(of).Add(float64(n))
			}
			setBool(ready, !r.Withdrawing)
			if r.Heartbeats > 0 {
				last.SetToCurrentTime()
			}
			if r.Entries == nil {
				return
			}
			bad, age := 0, time.Duration(0)
			for _, e := range r.Entries {
				if e.Problem != nil {
					bad++
					continue
				}
				age = max(age, e.Unchanged)
			}
			entries.WithLabelValues("live").Set(float64(len(r.Entries) - bad))
			entries.WithLabelValues("malformed").Set(float64(bad))
			oldest.Set(age.Seconds())
		},
		OnPublished:   func(all []endpoints.Endpoint) { published.Set(float64(len(all))) },
		OnExpired:     func(endpoints.Status) { expired.Inc() },
		OnMalformed:   func(endpoints.Status) { malformed.Inc() },
		OnExpireAfter: func(d time.Duration) { expireAfter.Set(d.Seconds()) },
	}, f.err()
}
