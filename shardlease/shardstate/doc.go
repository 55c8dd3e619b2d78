// Package shardstate derives the state of the shards of a ring from what was observed of their
// Leases. It is for a process that acts on shards, such as a sharder.
//
// A [Tracker] is fed with lists, watches and reads of Leases:
//
//	tracker.List(leases, clock.Now()) // a consistent list; then Observe and ObserveAbsence, by a watch from there
//	members := tracker.Members(clock.Now())
//	now := clock.Now()
//	if t, ok := tracker.Takeover(shard, now); ok && tracker.State(shard, now) == shardstate.Uncertain {
//		l, err := shardstate.TakeOver(ctx, client, t)
//		...
//		tracker.Observe(l, clock.Now())
//	}
//
// It returns the state of each shard:
//
//	Ready       held, and renewed within D                              member
//	Away        released by the shard, which is expected back           member
//	Expired     not renewed for D; or emptied, or deleted               member
//	Uncertain   not renewed for 2D: try to take the lease over, once    member
//	Dead        released by the shard, or taken over by the sharder
//	Orphaned    dead for the GC period
//	Malformed   not what a shard of this ring writes
//	Gone        no lease
//
// A state proves nothing about work. Only the [EpochState] of the epoch that an object names does.
// A missing lease proves that an epoch has ended only after the sharder has created the lease as
// its own.
//
// # Guaranteed
//
//   - A shard that does not renew is not dead before 2D (TestVerdicts).
//   - No process holds a term in an epoch for which any tracker has returned [EpochEnded]
//     (TestVerdicts; TestSimulatedShard of package shardlease).
//   - A shard that has released its lease is a member for its ReturnWithin, and no longer
//     (TestStates).
//   - Time is counted by the tracker's own clock, and no clock is compared with another, or with a
//     time in a record (TestStates has records that are decades off).
//
// What is not guaranteed, and the rights that a sharder needs, are in the documentation of package
// shardlease.
package shardstate
