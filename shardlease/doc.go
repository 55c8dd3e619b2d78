// Package shardlease is the heartbeat of a shard: a coordination.k8s.io/v1 Lease that one process holds while it works on its part of the
// objects, and what a sharder may conclude from it.
package shardlease
