package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// ShardLease registers the metrics of a shard lease. A lost term ends the process.
func ShardLease(registry prometheus.Registerer) (shardlease.Hooks, error) {
	f := &factory{registry: registry, subsystem: "shardlease"}
	held := f.gauge("held", "1 while this process is a shard.")
	waiting := f.gauge("waiting", "1 while this process waits for another one of its identity to end.")
	terms := f.counter("terms_total", "Terms that have begun.")
	renewed := renewals(f)
	return shardlease.Hooks{
		OnHeld: func(shardlease.Epoch) {
			held.Set(1)
			waiting.Set(0)
			terms.Inc()
			renewed.last.SetToCurrentTime()
		},
		OnReleased: func(shardlease.Epoch) { held.Set(0) },
		OnWaiting:  func(shardlease.HolderInfo) { waiting.Set(1) },
		OnRenewal:  renewed.observe,
		OnFailing:  failing(f, "follow, take or renew the Lease"),
	}, f.err()
}
