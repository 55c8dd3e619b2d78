// Package leaderelection elects one active process among replicas by a coordination.k8s.io/v1 Lease.
//
//	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
//	...
//	elector, err := leaderelection.New(leases, leaderelection.Config{Namespace: "default", Name: "my-controller"})
//	...
//	err = elector.Run(ctx, func(ctx context.Context) error {
//		return controller.Run(ctx) // only the leader gets here
//	})
//
// Candidates do no work and, while they watch a healthy leader, send no requests. First come, first served: who finds the
// Lease free has it, the others wait until it is released or expires. Work starts anew with every term, from a fresh
// view of the world. A leader that cannot renew in time ends its process with [ExitCodeNotLeader] instead of asking its
// goroutines to stop; restart it.
//
// # The arithmetic
//
// D is LeaseDuration, M Margin, n MissedRenewals, R the renew interval:
//
//	R = (D - M) / (n + 1)      defaults: D = 15 s, M = D/5 = 3 s, n = 3, so R = 3 s
//
//	  s        s+R       s+2R      s+3R      s+D-M     s+D
//	  |---------|---------|---------|---------|---------|
//	  renewal   missed    missed    missed    leader    a candidate that saw the renewal
//	  sent                                    has ended as early as possible takes over
//
// A leader counts from s, the time just before it sent the renewal that stands in the record, not from the answer, and counts
// whatever time may have passed: also while the machine was suspended, and what the wall clock was set forward. A
// candidate counts from when it received that version, which is later, and takes over by compare-and-swap on it. Neither
// compares its clock with a time that somebody else wrote. So the leader has been silent for M when the first successor
// may start, whatever the latency, however many responses are lost and however wrong the clocks are set; M only has
// to cover how differently fast two clocks run in D.
//
// After a crash the next leader starts D after the last renewal, that is between D - R and D after the crash; after a clean
// end, within milliseconds. A candidate that may not watch takes up to R longer. A take-over whose outcome it cannot
// learn costs it another D.
//
// # The guard
//
// [Elector.WrapTransport] makes a client refuse to write unless this process is the leader, and ends its requests with the
// term, so that no controller has to ask before every act:
//
//	guarded := rest.CopyConfig(config)
//	guarded.Wrap(elector.WrapTransport)
//	manager, err := ctrl.NewManager(guarded, ...)
//
// It works on the client's side, like everything here.
//
// # Health
//
// [Config].Healthy is asked before each renewal: a process whose work is dead, but whose renewals go on, would keep everybody
// else from working. [Elector.Check] is for the liveness probe of the process. It finds fault with work that goes on without a
// term, not with candidates or leaders that cannot reach the API server.
//
// # Who leads
//
// [Elector.Leader] and [Elector.LeaderAddress] know it from the record as last seen; clients of the daemon read the Lease,
// which has the leader's [Config].Address in the annotation bellwether.dev/address ([AddressAnnotation]). [Hooks] tell programs of changes,
// [Config].Events people: who became leader, who stopped and why stands where kubectl describe shows the Lease. The Event of
// a loss may not be sent any more, since the process exits.
//
// # Guaranteed
//
//   - Between the end of one leader's term and the start of the next one's that took over by expiry lies at least M.
//   - A renewal whose answer was lost counts from when it was sent, if it stands in the record; else not at all.
//   - A leader that learns that its record was changed or deleted by somebody else ends its work's context at once and
//     calls OnLost. It learns so from a watch of its own, also while a renewal hangs, and from its next renewal at the
//     latest. (Changed metadata is nobody's business.)
//   - On a clean end the Lease is renewed until the lead function has returned, however long that takes, and then
//     released with a mark that names the term. Candidates take an empty holder without the mark, and a deleted Lease
//     that they have seen held, for no release: they wait for D.
//   - A release never changes a record of another term. It comes when the guarded requests have been answered.
//     One without an answer is cut off M after the work has ended, or M after its caller has given it up. Then
//     the Lease is renewed until the API server has given the request up, at the end of the term in which
//     it was sent, and M longer (TestReleaseWaitsForWrites, TestLeaseIsHeldWhileItsReleaseWaits). If the Lease cannot
//     be renewed, nothing is released.
//   - Of processes that were given one identity, one leads: each record has the mark of the process that
//     wrote it (TestOfTwoElectorsOfOneIdentityOneLeads).
//   - Only a Status of the API server that names the Lease says that it is absent. Other answers, such as a
//     proxy's page with 404, are failures, and are retried (TestOddAnswersDoNotEndATerm).
//   - Liveness: while the API server and one candidate work, the Lease is taken within D of the last renewal
//     (D + max(D/3, 5 s) for a record of another elector), a renew interval and a half. Others may write
//     its metadata meanwhile, if a read and a write of ours fit between two of their writes
//     (TestSimulatedElections). A spec that somebody changes, or an emptied one, restarts the wait.
//   - The end of the process at the deadline depends on no other goroutine, no request and no log that can be written; with
//     KernelDeadline it does not depend on the process.
//
// # Not guaranteed
//
//   - Nothing on the client's side stops a process between the last check and an act. One that is stopped (SIGSTOP, a
//     paused VM, a suspended laptop, a machine that swaps) acts on what it knew until it is scheduled again, and then
//     ends within milliseconds. Requests already sent arrive whenever they arrive, and the guard cannot call them back. Use
//     it, or ask [Elector.IsLeader] after every wait and before every act, and let writes fail on stale resourceVersions.
//   - After a suspension IsLeader and the guard know at once what time it is, the lead function's context within a second.
//     A virtual machine that was paused, or restored from a snapshot, knows only when its wall clock has been set.
//   - With KernelDeadline a process that cannot end itself is dead at s+D-M/2. That is no fence either: what it has sent arrives.
//   - A restore of etcd from a backup forgets renewals that were acknowledged. The leader learns so from its next
//     renewal, but a candidate that was cut off may take over before.
//   - Deleting the Lease: a candidate that starts afterwards creates it at once. Do not grant "delete" on leases.
//   - Putting an older spec back, from a backup or a saved manifest: a candidate that has not seen the
//     renewals in between takes it for a leader that did not renew. Every renewal has a renew time of its
//     own, and an equal spec in a later version counts as one that was not renewed.
//   - Coordinated leader election, where its feature gate is on: who may create leasecandidates can name our
//     Lease in one. Kubernetes then writes a strategy and a preferredHolder into it, the leader stops, and
//     Run returns [ErrCoordinated] from then on. Do not grant "create" on leasecandidates. To clear it, delete the LeaseCandidate, and
//     remove both fields: kubectl patch lease NAME --type=merge -p '{"spec":{"strategy":null,"preferredHolder":null}}'.
//   - An OnLost that returns, and work that goes on after its context has ended.
//   - What other electors on the same Lease do: see Mixed fleets.
//
// # Mixed fleets
//
// Replicas with client-go's elector may contend for the same Lease, as in a migration. What is guaranteed of ours holds
// against them as far as it is ours to keep: a term of ours is over before a client-go candidate may take over by expiry; a
// release of ours, which such a candidate takes at once, comes after the work; and a record that is not marked as ours is
// left alone for longer:
//
//   - for D + max(D/3, 5 s) without a change, D being what that record says: 20 s at the default;
//   - for D after it was emptied, unless TrustForeignRelease is set. A leader of client-go's that was deposed may empty the
//     record of its successor: a record of ours that somebody has emptied is never trusted.
//
// client-go's elector does not guarantee that only one leads, and we cannot in its place:
//
//   - Its leader counts from the answer to a renewal, and its work's context ends only after the attempt to release. With
//     ReleaseOnCancel and its defaults, work may go on for 22 s after that answer if the network says nothing (RetryPeriod
//     and twice RenewDeadline; a request timeout on its client shortens the last part), and the answer may have taken its
//     time. The patience above makes up for most of that, not for all.
//   - It releases when its context ends, whether or not work has ended. One D is our wait for such work.
//   - It takes a record that somebody has emptied or deleted at once, also one of ours whose leader works.
//   - It takes a record with its own identity for its own.
//
// To migrate, roll replicas over as usual, with the same LeaseDuration and identities that are unique per process; either
// direction works, with a pause of D where one of ours succeeds a client-go leader. Have the old program end its work
// before it cancels its elector's context, and leave TrustForeignRelease off unless it does. Revoke "delete" on leases
// first; of the verbs below, client-go's elector does not need "watch". A fleet has all the guarantees of this package when
// the last client-go replica is gone.
//
// # Fence on the server
//
// [AdmissionPolicy] builds a ValidatingAdmissionPolicy by which the API server denies the writes of every replica but the
// leader. For writes to Kubernetes that narrows the first gap above to the time by which the server's own watch of the
// Lease lags, usually milliseconds. It takes an admin to install it, and identities of [PodIdentity].
//
// # RBAC
//
// In the namespace of the Lease, on resource leases of API group coordination.k8s.io:
//
//	create             until the Lease exists; cannot be restricted to a name
//	get, update        required; may be restricted by resourceNames
//	watch              optional, may be restricted by resourceNames; without it candidates poll every R, and say so once,
//	                   and leaders learn of a loss from their next renewal
//
// With [Config].Events, the recorder's client needs create and patch on resource events of API group events.k8s.io in that namespace
// (of the group "" if the recorder is one of k8s.io/client-go/tools/record).
//
// A missing verb is an error that names it, at once in the log, and from Run once it has lasted for D: until then the
// roles may still be on their way.
//
// # Tests
//
// New takes a kubernetes.Interface, so a fake clientset works, also inside a testing/synctest bubble. Fake clientsets do
// not detect conflicts: do not let two electors race on one.
package leaderelection
