package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// LeaderElection registers the metrics of an elector. With
//
//	last = bellwether_leaderelection_last_renewal_timestamp_seconds
//
// the age of a leader's last renewal is timestamp(last) - last, as of the last scrape. Using time()
// instead of timestamp(last) would include the time since that scrape.
func LeaderElection(registry prometheus.Registerer) (leaderelection.Hooks, error) {
	f := &factory{registry: registry, subsystem: "leaderelection"}
	leading := f.gauge("leading", "1 while this process leads.")
	changes := f.counter("leader_changes_total", "Changes of the leader that this process has seen.")
	terms := f.counters("terms_total", "Terms of this process that have ended: released, or lost.", "end")
	vacancies := f.histograms("vacancy_seconds", "How long there was no leader before this process led: since a "+
		"release, or since the last renewal of a leader that died.",
		ofHandovers, "after")
	renewed := renewals(f)
	// Even before the first one, because Prometheus shows increases of existing series only.
	for _, end := range []string{"released", "lost"} {
		terms.WithLabelValues(end)
	}
	for _, after := range []string{"release", "death"} {
		vacancies.WithLabelValues(after)
	}
	return leaderelection.Hooks{
		OnNewLeader: func(string) { changes.Inc() },
		OnStartedLeading: func(term leaderelection.Term) {
			leading.Set(1)
			renewed.last.SetToCurrentTime() // the write that began the term
			if term.Vacant > 0 {
				after := "death"
				if term.Released {
					after = "release"
				}
				vacancies.WithLabelValues(after).Observe(term.Vacant.Seconds())
			}
		},
		OnStoppedLeading: func(_ leaderelection.Term, err error) {
			leading.Set(0)
			end := "released"
			if err != nil {
				end = "lost"
			}
			terms.WithLabelValues(end).Inc()
		},
		OnRenewal: renewed.observe,
		OnFailing: failing(f, "follow, take or renew the Lease"),
	}, f.err()
}

// renewal counts attempts to renew a Lease.
type renewal struct {
	total    *prometheus.CounterVec
	duration prometheus.Histogram
	last     prometheus.Gauge
}

func renewals(f *factory) renewal {
	r := renewal{
		total: f.counters("renewals_total", "Attempts to renew the Lease.", "result"),
		duration: f.histogram("renewal_duration_seconds", "Time that the requests of an attempt to renew took.",
			ofRequests),
		last: f.gauge("last_renewal_timestamp_seconds", "Time of the last renewal; 0 before the first one."),
	}
	r.total.WithLabelValues("ok")
	r.total.WithLabelValues("error")
	return r
}

// failing returns a hook that sets how long attempts have failed.
func failing(f *factory, attempts string) func(time.Duration, error) {
	seconds := f.gauge("failing_seconds", "How long all attempts to "+attempts+" have failed; 0 after one that has "+
		"succeeded.")
	return func(lasted time.Duration, _ error) { seconds.Set(lasted.Seconds()) }
}

func (r renewal) observe(latency time.Duration, err error) {
	r.total.WithLabelValues(result(err)).Inc()
	r.duration.Observe(latency.Seconds())
	if err == nil {
		r.last.SetToCurrentTime()
	}
}

// LeaderForLife registers the metrics of a candidate, for leader.WithHooks.
func LeaderForLife(registry prometheus.Registerer) (leader.Hooks, error) {
	f := &factory{registry: registry, subsystem: "leaderforlife"}
	leading := f.gauge("leading", "1 when this Pod is the leader. It stays 1.")
	waiting := f.gauge("waiting_for", "How many Pods this candidate waits for.")
	return leader.Hooks{
		OnWaiting: func(all []leader.Waiting) { waiting.Set(float64(len(all))) },
		OnLeading: func(types.UID) {
			leading.Set(1)
			waiting.Set(0)
		},
		OnFailing: failing(f, "become the leader"),
	}, f.err()
}
