// Package metrics has Prometheus collectors for every package of Bellwether. Each function registers what one primitive does, and returns the hooks that
// count it:
//
//	config.Hooks, err = metrics.LeaderElection(registry)
//
// and [Replica] does so for all parts of a sharded replica. Two primitives of one kind in a process need labels that tell them apart:
//
//	metrics.LeaderElection(prometheus.WrapRegistererWith(prometheus.Labels{"election": "census"}, registry))
//
// What has hooks of its own already calls both:
//
//	counted := config.Hooks.OnStartedLeading
//	config.Hooks.OnStartedLeading = func(term leaderelection.Term) { counted(term); announce(term) }
//
// # Names
//
// All names begin with bellwether_ and the package, and have their unit, in base units, at their end. Labels have few values, known beforehand:
// results, verbs, reasons, phases. The exception is the label shard of bellwether_sharder_shard_objects, which has one for each shard of the ring. No
// object, node or identity is a label.
//
// # What a replica knows
//
// A sharder and a fencing controller tell only while their process leads; what they have told stays until it leads again or ends, but that [Replica]
// sets the sharder's gauges to nothing when another replica leads. Alerts multiply with bellwether_leaderelection_leading, or take the maximum.
//
// Alerts are in alerts.yaml, for Prometheus.
package metrics
