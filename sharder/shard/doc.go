// Package shard is the working replica of a ring. It admits work on the objects that are assigned
// to it, ends work on those that it must hand over, and refuses work on all others.
//
//	worker, err := shard.New(metadata, mapper, lease, shard.Config{Resources: resources})
//	...
//	informer := worker.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client),
//		&corev1.ConfigMap{}, 0, cache.Indexers{})
//	err = shard.RunController(ctx, worker, informer, 2, reconcile)
//
// # What work sees when it begins
//
// When an object comes from another shard, work begins in [Shard.Do] only when its copy of the
// object and the caches are at or past the assignment, so it sees all that the former shard has
// written. The test in brackets fails without it. TestNoMovedObjectBeginsStale shows all of it on a
// real API server.
//
//   - The copy of the root that is passed to Do has the version of the assignment, or a later one
//     (TestACopyFromBeforeAHandoverAllowsNoWork, TestNoTwoShardsWorkOnOneObject). A shard lets go
//     only when no request of its work can still be carried out
//     (TestAnAcknowledgementWaitsForRequestsOfUnknownOutcome), so the assignment comes after all
//     that it wrote.
//   - For each resource of children, all informers of this shard show the children that the former
//     shard has created, in the state in which it left them. The owner record has the version that
//     they must reach for each resource (TestWorkWaitsForTheCachesOfChildren,
//     TestEachCacheOfChildrenHasItsOwnFloor, TestSimulatedFamilies of package sharder).
//   - They show no child that the former shard has deleted (TestWorkWaitsUntilNoDeletedChildIsShown,
//     TestSimulatedReturns of package sharder).
//
// An informer that is older than the term first catches up with a consistent list that is requested
// in the term (TestAWarmCacheThatIsBehindAllowsNoWork, TestAWarmCacheOfChildrenCatchesUp,
// TestSimulatedWarmShards of package sharder). If that takes more than 30 s, because its watch
// hangs, it lists its objects again (TestAWarmCacheWhoseWatchHangsLists); a list without an answer
// is sent again after 2 min (TestAListOfAnInformerThatIsLostIsSentAgain). The shard then does what
// the sharder has asked for meanwhile (TestAWarmCacheLetsGoOfWhatIsDrainedMeanwhile). Work on
// objects of other resources does not wait for this.
//
// Not covered:
//
//   - What work reads through other informers, such as objects outside the ring, or with other
//     shards. Read them from the API server, or call fresh.WaitLatest in work.
//   - A second informer of the root's resource, which may be behind the one that the copy is from,
//     as all of them may be if the copy is from the API server. Work should use the copy that was
//     passed to Do.
//   - A copy of a child that was deleted after the copy was read.
//   - Resources whose versions cannot be compared (package fresh names them). A copy of such an
//     object may be from before the assignment.
//   - What the shard itself has written, which its caches show a little later, as in every
//     controller.
//   - A deletion by a former shard, if a user removes the record of the root, or labels a child for
//     the next shard, before that shard's informers have seen the deletion.
//
// # Objects that nothing works on
//
// A shard takes part in its ring as soon as an informer of one of its resources begins; before that
// its Lease states that it is idle, and the sharder gives it nothing
// (TestAShardWithoutAnInformerIsIdle, TestAnIdleShardGetsNoObjects of package sharder). Then it
// gets objects of each resource of the ring. If the process has no informer of one of them, or its
// reconcilers do not ask the shard, [Shard.Check] fails after a minute or two, and the shard logs
// that (TestAResourceWithoutAnInformerIsSaid, TestAReconcilerThatDoesNotAskFailsTheCheck). The
// shard gets such objects all the same, so start the controllers of all resources in each replica.
// If only one of several reconcilers does not ask, the shard logs its first write of an object of
// the ring that has a name already (TestAWriteOutsideOfWorkIsWarnedOf).
//
// # Requirements
//
// A shard needs a lease of package shardlease, clients that the lease guards, and caches that
// [Shard.NewInformer] makes. It works even while no sharder runs. The documentation of package
// sharder describes the protocol, its guarantees and non-guarantees, costs and RBAC.
package shard
