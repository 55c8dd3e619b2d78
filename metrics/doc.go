// Package metrics has Prometheus collectors for every package of Bellwether. Each function
// registers the metrics of one primitive and returns the hooks that feed them:
//
//	config.Hooks, err = metrics.LeaderElection(registry)
//
// [Replica] does this for all parts of a sharded replica. Two primitives of one kind in a process
// need a label that distinguishes them, and those in one job should have it as well:
//
//	metrics.LeaderElection(prometheus.WrapRegistererWith(prometheus.Labels{"election": "census"}, registry))
//	metrics.Replica(prometheus.WrapRegistererWith(prometheus.Labels{"ring": "checksums"}, registry), &config)
//
// Alerts and dashboards support two such labels: election, for elections and leaders for life, and
// ring. A registry accepts a metric only with the same label names, so a process with an election
// beside its rings uses election for all.
//
// A program with hooks of its own calls both:
//
//	counted := config.Hooks.OnStartedLeading
//	config.Hooks.OnStartedLeading = func(term leaderelection.Term) { counted(term); announce(term) }
//
// # Names
//
// All names begin with bellwether_ and the package, and end with their base unit. Labels have few
// values that are known beforehand, such as results, verbs, reasons and phases; only the label
// shard of bellwether_sharder_shard_objects has one value for each shard of the ring. No object,
// node or identity is a label.
//
// # What a replica knows
//
// A sharder and a fencing controller update their metrics only while their process leads.
// Afterwards the last values stay until it leads again or ends, except that [Replica] resets the
// sharder's gauges when another replica leads, and [Fencing] counts no fences. So alerts multiply
// with bellwether_leaderelection_leading or take the maximum.
//
// Alerts are in alerts.yaml, for Prometheus. Dashboards are in dashboards/, for Grafana.
package metrics
