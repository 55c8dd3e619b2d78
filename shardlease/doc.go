// Package shardlease is the heartbeat of a shard: a coordination.k8s.io/v1 Lease that one process holds while it works on its part of the
// objects, and what a sharder may conclude from it.
//
//	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
//	...
//	shard, err := shardlease.New(leases, shardlease.Config{
//		Namespace: "default", Ring: "my-controller", Incarnation: os.Getenv("POD_UID"),
//	})
//	...
//	guarded := rest.CopyConfig(config)
//	guarded.Wrap(shard.WrapTransport)
//	...
//	err = shard.Run(ctx, func(ctx context.Context) error {
//		return controllers.Run(ctx) // only while the lease is held
//	})
//
// The Lease, its holder and the shard have one name, which is the hostname unless [Config].Identity says otherwise. It has the label
// ring.bellwether.dev/name. All shards hold theirs at the same time; a sharder gives each its objects. A shard that cannot renew its
// lease in time ends its process with [ExitCodeNotHeld]; restart it. Terms, deadlines, the guard and health checks are those of
// package leaderelection, whose documentation has the arithmetic.
//
// # Epochs
//
// What a shard may claim is good for an [Epoch]: the UID of the Lease and the number in its annotation ring.bellwether.dev/epoch. A shard
// that takes its lease over from itself goes on in the same epoch, so that a restart moves no object. If it creates the lease, or
// if anybody else stands in it (nobody, after a release; the sharder; somebody who edited it), the number grows by one.
//
// # Restarts, and two processes of one name
//
// A process takes the lease of its own name at once if it was released, or if the process that left it behind is known to have ended: it
// was of the same Pod ([Config].Incarnation), was the only one of its name there, and this one is now. On Linux, an abstract unix
// socket tells, which the kernel gives to one process at a time. Everywhere else, and from any other Pod, the lease has to stand
// unrenewed for its duration: so a second process waits as long as the first one lives, and says for whom.
//
// # Names for the Pods of a Deployment
//
// Such a Pod has another name than the one it replaces. [ClaimOrdinal] gives it the name, and so the
// objects, of a shard that has released its lease.
//
// # For the sharder
//
// A [Roster] is fed with what lists, watches and reads of the leases return, and answers for each shard:
//
//	Ready       held, and renewed within D                        member
//	Away        released by the shard, which is expected back     member
//	Expired     not renewed for D; or emptied, or deleted         member
//	Uncertain   so for 2D: try to acquire the lease, once         member
//	Dead        released by the shard, or taken by the sharder
//	Orphaned    dead for the GC period
//	Malformed   not what a shard of this ring writes
//	Gone        no lease
//
// It also gives a [Verdict] on each epoch that an object names, which is what decides whether anybody may still work in it: no state is
// proof of that, and a missing lease only is when the sharder has created it as its own.
//
//	roster.List(leases, clock.Now())           // a consistent list; then See and Miss, by a watch that begins there
//	members := roster.Members(clock.Now())     // the ring
//	if a, ok := roster.Acquisition(shard, clock.Now()); ok && roster.State(shard, clock.Now()) == shardlease.Uncertain {
//		l, err := shardlease.Acquire(ctx, client, a)
//		...
//		roster.See(l, clock.Now())
//	}
//
// # For what works in the shard
//
// [Lease.Term] is the term that is held now, or why there is none. A [Scope] of it is a piece of work that ends with the term, and
// knows when none of its writes can be carried out any more. [Lease.Await] keeps the lease from being released before all work has ended.
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - Two processes of one identity never both hold a term, whatever the latency, the loss of answers and
//     the clocks, as long as the Lease is not deleted
//     (TestOfTwoProcessesOfOneIdentityThatStartAtOnceOneHoldsTheLease, TestSimulatedShard; against
//     deletions, between processes that have seen a holder, TestSimulatedDeletions).
//   - Of Pods that claim names, each has one of its own, and none that another one has not released
//     ([ClaimOrdinal]; TestEachPodClaimsANameOfItsOwn, TestWhichNameIsClaimed).
//   - No process holds a term in an epoch on which the verdict of any sharder was [Over] (the same, and TestVerdicts).
//   - The epoch grows as said above, and at no other time (TestEpochs, TestSimulatedShard).
//   - The sharder takes a lease exactly once, whoever tries how often (TestLifeOfAShard in internal/e2e/shardlease), and never one
//     that was renewed after it was seen.
//   - A shard whose lease is deleted, emptied, taken or given another epoch stops when it sees that, usually within milliseconds, and at
//     its deadline otherwise. It never creates the lease again before its work has ended
//     (TestShardStopsWhenItsLeaseIsNotItsOwnAnyMore). The sharder does not take it for dead before 2D (TestVerdicts).
//   - A lease is released only after the work function and everything awaited have returned nil, or the work function its context's own
//     error (TestLeaseIsReleasedOnlyWhenAllHasEnded); meanwhile it is renewed.
//   - A shard that has released its lease is a member for its [Config].ReturnWithin, and no longer (TestStates).
//   - No clock is compared with another machine's, nor with a time in a record (TestStates has records that are decades off).
//   - Liveness: while the API server and one process of the shard work, it holds the lease within D of the
//     last renewal and a renew interval and a half, or D after the sharder has taken it, whatever is
//     written to the Lease's metadata (TestSimulatedShard).
//
// # Not guaranteed
//
//   - Nothing on the client's side stops a process between the last check and an act; requests already sent arrive whenever they arrive.
//     Only with [Config].KernelDeadline does a stopped process not act when it is woken.
//   - Deleting the Lease: a process that starts afterwards creates it at once, while an earlier one may not know yet. Grant "delete" on
//     leases to nobody but the sharder.
//   - Forged records: an epoch that is counted down, or an incarnation, a holder or a mark that somebody writes by hand in a way that a
//     shard or a sharder would have.
//   - An Incarnation that a process on another machine, or in another network namespace, has as well.
//   - A restore of etcd from a backup: restart everything.
//   - An OnLost that returns, and work that goes on after its context has ended.
//
// # RBAC
//
// For a shard, in the namespace of the Lease, on resource leases of API group coordination.k8s.io:
//
//	create             until the Lease exists; cannot be restricted to a name
//	get, update        required
//	watch              optional; without it a second process polls, and a loss is learned of from the next renewal
//	list               for ClaimOrdinal
//
// For a sharder: list, watch, get, update, create, delete. A missing verb is an error that names it, at once in the log, and from Run once it
// has lasted for D.
//
// # Tests
//
// New takes a kubernetes.Interface, so a fake clientset works, also inside a testing/synctest bubble. Fake clientsets do not detect
// conflicts: do not let two shards, or a shard and a sharder, race on one lease.
package shardlease
