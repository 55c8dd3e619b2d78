// Package supervisor releases the leases of a process that has died.
//
//	func main() {
//		parent := supervisor.Start() // before anything else
//		...
//		elector, err := leaderelection.New(leases, leaderelection.Config{
//			Namespace: "default", Name: "my-controller", Supervisor: parent.Client(config),
//		})
//
// A candidate cannot know whether a silent leader is dead, so it waits until the Lease has expired,
// but the parent of a process knows. [Start] runs the program as a child of the process that was
// started, which stays as a small parent. When the child has ended because it panicked, was killed,
// ran out of memory or exited, the parent empties the Lease with the mark of a release, and the
// next leader works some milliseconds later.
//
// # Guaranteed
//
// In brackets is the test that fails without it.
//
//   - A Lease is released only when the child and all its descendants have ended
//     (TestDescendantsEndBeforeTheRelease). They also end, within a quarter of a Margin, if the
//     child has ended past its deadline (TestDescendantsEndPastTheDeadline).
//   - At least a Margin passes between a guarded request without an answer and the release, as
//     before a term that begins after expiry (TestRequestsUnderWayAreWaitedFor,
//     TestSimulatedSupervisors in package leaderelection). For one that failed before the death,
//     the wait is that of a clean release (TestReleaseOfAnOrphanWaitsForItsRequests in package
//     internal/leasehold).
//   - A record of another process, or of another term, is never changed, however late the parent
//     reads or writes (TestSimulatedSupervisors), and whatever has become of the Lease since the
//     child wrote it (TestOrphanIsReleasedFromWhatItsProcessHasLeft in package internal/leasehold).
//     If the child died while it wrote to the shared memory, the parent reads the Lease
//     (TestStoredVersionIsWhatTheSupervisorReads).
//   - The child does not outlive the parent: the kernel kills it, even if it has capabilities of
//     its file, is setuid, or has changed its user since Start (TestChildDiesWithItsSupervisor).
//   - With a parent that is stopped, killed, or without a network, a successor is as fast as
//     without one, because the Lease expires (TestSimulatedSupervisors).
//
// # Not guaranteed
//
//   - If parent and child are killed together, as when a container is, the supervisor releases
//     nothing, and candidates rely on the kubelet's report (Config.PodUID of the leases). The same
//     happens after kill -9 of the process number that a shell or a service manager shows, which is
//     the parent's. What the child has started then keeps running beside the next leader, unless
//     the parent is the PID 1 of a container, or systemd ends all processes of its unit
//     (KillMode=mixed does). To end a leader, kill the child.
//   - In a user namespace, a program that changes its user after it has made its leases may outlive a
//     killed parent.
//   - A request of a client without the guard, if another client of the process is guarded, because
//     such requests are not counted.
//   - A process that the child has started under another user, so that it cannot be killed, delays
//     the release until it has ended.
//   - Processes that act for the child without being its descendants, such as those of a daemon
//     that it uses.
//
// # Limits
//
// Linux only. On other systems Start does nothing, which is logged. The parent needs credentials
// that it can read itself. Files, such as the token of a Pod, are read again when they are used,
// but plug-ins that run commands, custom transports and wrappers are refused, with an error that
// names the field and a way out, such as BELLWETHER_SUPERVISOR=off (see [Start]).
//
// # What the parent does
//
// It forwards signals, exits as the child did, does nothing else while the child lives, and uses
// some 7 MB of memory. When the child has ended without releasing its leases, it
//
//  1. kills what the child has left behind, and waits until all of that has ended;
//  2. waits for a Margin, because a request may still be under way, unless the guard of the lease
//     was installed and every guarded request had an answer. If one has failed, it waits until the
//     API server has given it up, and a Margin;
//  3. empties the Lease by one conditional write, in place of the version that the child has left in
//     memory that both share. If that is no longer the record, it reads the Lease, and empties it
//     if its last writer is the child.
//
// If that fails, it tries again for a Margin and a renew interval, 6 s by default. Then it ends,
// because the restart of the container waits for it (TestReleaseOfAnOrphanIsGivenUp in package
// internal/leasehold). A signal does not end it sooner, because a container that stops should also
// release.
//
// After the deadline of the child's term, it does only the first, and the Lease expires by itself.
package supervisor
