// Package shardlease is the heartbeat of a shard: a coordination.k8s.io/v1 Lease that one process
// holds while it works on its share of the objects. Package shardstate shows what others may
// conclude from these leases.
//
//	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
//	...
//	shard, err := shardlease.New(leases, shardlease.Config{
//		Namespace: "default", Ring: "my-controller", PodUID: os.Getenv("POD_UID"),
//	})
//	...
//	guarded := rest.CopyConfig(config)
//	guarded.Wrap(shard.WrapTransport)
//	...
//	err = shard.Run(ctx, func(ctx context.Context) error {
//		return controllers.Run(ctx) // only while the lease is held
//	})
//
// The Lease, its holder and the shard have one name: the hostname, unless [Config].Identity is set.
// The Lease has the label ring.bellwether.dev/name. All shards of a ring hold their leases at the
// same time, and a sharder gives each shard its objects. A shard that cannot renew its lease in
// time ends its process with [ExitCodeNotHeld]; restart it. Terms, deadlines, the guard and health
// checks are those of package leaderelection, whose documentation has the arithmetic.
//
// # Epochs
//
// A shard's claims are valid for an [Epoch]: the UID of the Lease and the number in its annotation
// ring.bellwether.dev/epoch. A shard that takes its lease over from itself continues the epoch, so
// a restart moves no object. The number grows by one if the shard creates the lease, or if the
// record does not name it as the holder: after a release, a takeover by the sharder, or a user's
// edit.
//
// # Restarts, and two processes of one name
//
// A process takes the lease of its name at once if the lease was released, or if the process that
// left it is known to have ended: it was of the same Pod ([Config].PodUID), was the only one of its
// name there, and the new process is the only one now. On Linux an abstract unix socket proves
// this, because the kernel gives it to one process at a time. In all other cases the lease must
// stand unrenewed for its duration, so a second process waits as long as the first one lives, and
// logs for which one it waits.
//
// # Crashes
//
// With a [Config].Supervisor, the lease of a process that has died is released, so its objects go
// to others at once, or wait for [Config].ReturnWithin. A process that has held its lease for less
// than [Config].MinUptime may be in a crash loop, so its lease is left alone, and a process that
// takes it back within 2D keeps all objects.
//
// If the supervisor dies too, as when the container is killed, a sharder does the same, a Margin
// after the kubelet has reported the end of the container. This needs [Config].PodUID, and a
// sharder that may watch the Pod. Package leaderelection describes what is proof.
//
// # Names for the Pods of a Deployment
//
// A Pod of a Deployment has a different name from the Pod that it replaces. [ClaimOrdinal] gives it
// the name, and so the objects, of a shard that has released its lease.
//
// # Weights
//
// How many objects a shard gets depends on its weight: 100, or [Config].Weight, or what an
// administrator writes into [WeightAnnotation] of its Lease, which no shard changes or removes
// (TestALeaseHasWeightAndVersion). A shard of weight 0 is drained.
//
// # For work in the shard
//
// [Lease.Term] returns the current term, or why the lease is not held. A [Scope] is a piece of work
// that ends with its term, and reports when none of its writes can still be carried out.
// [Lease.AddReleaseGate] keeps the lease from being released before all work has ended.
//
// # Guaranteed
//
// The test in brackets fails without it.
//
//   - Two processes of one identity never both hold a term, whatever the latency, lost answers and
//     clocks, as long as the Lease is not deleted
//     (TestOfTwoProcessesOfOneIdentityThatStartAtOnceOneHoldsTheLease, TestSimulatedShard). If it
//     is deleted, this holds between processes that have seen a holder (TestSimulatedDeletions).
//   - Each Pod that claims a name gets one of its own, and none that another Pod has not released
//     ([ClaimOrdinal]; TestEachPodClaimsANameOfItsOwn, TestWhichNameIsClaimed).
//   - The epoch grows as described above, and at no other time (TestEpochs, TestSimulatedShard).
//   - No process holds a term in an epoch that any observer has found ended (TestSimulatedShard).
//   - A sharder takes a lease over exactly once, however many try (TestLifeOfAShard in
//     internal/e2e/shardlease), and never a lease that was renewed after it was observed.
//   - A shard whose lease is deleted, emptied, taken or given another epoch stops when it observes
//     that, usually within milliseconds, and otherwise at its deadline. It never creates the lease
//     again before its work has ended (TestShardStopsWhenItsLeaseIsNotItsOwnAnyMore).
//   - A lease is released only after the work function and all release gates have returned nil, or
//     the work function its context's error (TestLeaseIsReleasedOnlyWhenAllHasEnded). Until then it
//     is renewed. If one of them panics, the process reports it, exits and releases nothing
//     (TestPanicIsSaid).
//   - No clock is compared with the clock of another machine or with a time in a record.
//   - Liveness: while the API server and one process of the shard work, that process holds the
//     lease within D of the last renewal plus one and a half renew intervals, or D after the
//     sharder took the lease, whatever is written to the Lease's metadata (TestSimulatedShard).
//
// # Not guaranteed
//
//   - Client-side code cannot stop a process between its last check and an act, and a request that
//     was sent may arrive at any time. Only with [Config].KernelDeadline does a stopped process not
//     act when it wakes.
//   - Deletion of the Lease: a process that starts afterwards creates it at once, perhaps before an
//     earlier one has noticed. Grant "delete" on leases only to the sharder.
//   - Forged records: an epoch that is counted down; an incarnation, a holder or a mark that is
//     edited to look like a shard's or a sharder's.
//   - A PodUID that a process on another machine, or in another network namespace, shares.
//   - A restore of etcd from a backup: restart everything.
//   - An OnLost that returns, and work that continues after its context has ended.
//
// # RBAC
//
// For a shard, in the namespace of the Lease, on resource leases of API group coordination.k8s.io:
//
//	create         until the Lease exists; cannot be restricted to a name
//	get, update    required
//	watch          optional; without it a second process polls, and a loss is found at a renewal
//	list           for ClaimOrdinal
//
// For a sharder: list, watch, get, update, create, delete; and watch on pods for the end of
// containers, which is optional. A missing verb is logged by name at once, and is an error of Run
// after it has lasted for D.
//
// # Tests
//
// New takes a kubernetes.Interface, so a fake clientset works, also inside a testing/synctest
// bubble. Fake clientsets do not detect conflicts: do not let two shards, or a shard and a sharder,
// race for one lease.
package shardlease
