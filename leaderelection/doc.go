// Package leaderelection elects one active process among replicas by a coordination.k8s.io/v1
// Lease.
//
//	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
//	...
//	elector, err := leaderelection.New(leases, leaderelection.Config{Namespace: "default", Name: "my-controller"})
//	...
//	err = elector.Run(ctx, func(ctx context.Context) error {
//		return controller.Run(ctx) // only the leader gets here
//	})
//
// Candidates do no work and send no requests while they watch a healthy leader, and the first one
// that finds the Lease free takes it. Start each term from a fresh view of the world. A leader that
// cannot renew in time ends its process with [ExitCodeNotLeader], so restart it. With
// [Config].StepDown, only its work ends, before that deadline, and the process stays.
//
// # Guard
//
// [Elector.WrapTransport] makes a client refuse writes unless this process is the leader, and ends
// its requests with the term:
//
//	guarded := rest.CopyConfig(config)
//	guarded.Wrap(elector.WrapTransport)
//	manager, err := ctrl.NewManager(guarded, ...)
//
// # Health
//
// [Config].Healthy is called before each renewal, so that a process whose work is dead loses the
// Lease. [Elector.Check] is for the liveness probe. It fails while work continues without a term,
// but, without [Config].MaxFailing, not for candidates or leaders that cannot reach the API server.
//
// # Who leads
//
// [Elector.Leader] and [Elector.LeaderAddress] return what the last seen record contains, while
// clients of the daemon read the leader's [Config].Address from the Lease's annotation
// bellwether.dev/address ([AddressAnnotation]). [Hooks] report changes to the program, and
// [Config].Events to people, in kubectl describe of the Lease. The Event of a loss may be missing,
// because the process exits.
//
// # Guaranteed
//
// D is LeaseDuration, M Margin and R the renew interval: see Timing.
//
//   - After one leader's term ends, at least M passes before a successor that took over by expiry
//     starts.
//   - A renewal whose answer was lost counts from when it was sent if it is in the record, and
//     otherwise not at all.
//   - A leader that learns of a change or deletion of its record ends its work's context at once
//     and calls OnLost. It learns of it from its watch, even while a renewal hangs, and at the
//     latest from its next renewal. Changed metadata does not matter.
//   - With StepDown, a process that stays has ended the work of its term before the deadline. It
//     takes the Lease back before it has expired only if it wrote the record itself and every
//     guarded request had an answer (TestSimulatedStepDowns, TestSimulatedStepDownsOfGuardedWork).
//   - On a clean end, the Lease is renewed until the lead function has returned, then released with
//     a mark that names the term. An empty holder without the mark is no release, nor is the
//     deletion of a Lease that a candidate saw held: candidates wait for D.
//   - A panic of the lead function ends the process, and the Lease is not released before that
//     (TestLeaseIsHeldUntilAPanicHasEndedTheProcess).
//   - A release never changes a record of another term. It waits for guarded requests, each for at
//     most M after the work has ended or its caller has given up. A request without an answer is
//     then cut off, and the Lease is renewed until M after the API server has given it up, at the
//     end of the term in which it was sent (TestReleaseWaitsForWrites,
//     TestLeaseIsHeldWhileItsReleaseWaits). If the Lease cannot be renewed, it is not released.
//   - Of two processes with one identity, only one leads, because each record has a mark of the
//     process that wrote it (TestOfTwoElectorsOfOneIdentityOneLeads).
//   - Only a Status of the API server that names the Lease means that it is absent. Other answers,
//     such as a proxy's 404 page, are failures and are retried (TestOddAnswersDoNotEndATerm).
//   - Liveness: while the API server and one candidate work, the Lease is taken within D + 1.5 R of
//     the last renewal (D + max(D/3, 5 s) + 1.5 R for a record of another elector). Meanwhile others
//     may write its metadata, if a read and a write of ours fit between two of their writes
//     (TestSimulatedElections). A changed or emptied spec restarts the wait.
//   - The end of the process at the deadline needs no other goroutine, request or log. With
//     KernelDeadline it does not even need the process.
//
// # Not guaranteed
//
//   - No client-side check stops a process between the check and the act. A stopped process
//     (SIGSTOP, a paused VM, a suspended laptop, a swapping machine) acts on old knowledge when it
//     runs again, and ends within milliseconds. The guard cannot call back requests already sent.
//     Use it, or ask [Elector.IsLeader] after every wait and before every act, and make writes fail
//     on stale resourceVersions.
//   - After a suspension, IsLeader and the guard take the lost time into account at once, and the
//     lead function's context ends within a second. In a virtual machine that was paused or restored,
//     they do so only once its wall clock has been set.
//   - With KernelDeadline, a process that cannot end itself is dead at s+D-M/2, but requests that it
//     has sent may still arrive.
//   - A restore of etcd from a backup forgets acknowledged renewals. The leader learns of it from
//     its next renewal, but a disconnected candidate may take over before.
//   - Deletion of the Lease: a candidate that starts afterwards creates it at once. Do not grant
//     "delete" on leases.
//   - Restoring an older spec from a backup or manifest: a candidate that has not seen the renewals
//     in between takes it for a leader that did not renew, because each renewal has its own renew
//     time, and an equal spec in a later version counts as not renewed.
//   - Coordinated leader election, where its feature gate is on: a user who may create
//     leasecandidates can name our Lease in one. Kubernetes then writes a strategy and a
//     preferredHolder, the leader stops, and Run returns [ErrCoordinated]. Do not grant "create" on
//     leasecandidates. To recover, delete the LeaseCandidate and remove both fields: kubectl patch
//     lease NAME --type=merge -p '{"spec":{"strategy":null,"preferredHolder":null}}'.
//   - An OnLost that returns, and work that continues after its context has ended.
//   - What other electors on the same Lease do: see Mixed fleets.
//   - Who has set which field of the Lease (metadata.managedFields). If an elector is the only
//     client that has, its first renewal makes the API server stop tracking that, because each
//     renewal would carry the list and each candidate would receive it. What kubectl or server-side
//     apply has set before then stays tracked, and once somebody applies to the Lease, so does
//     everything.
//
// # Fence on the server
//
// Package leaderelection/admission builds a ValidatingAdmissionPolicy by which the API server
// denies the writes of all replicas except the leader. For writes to Kubernetes, it narrows the
// first gap above to the lag of the server's watch of the Lease, usually milliseconds.
//
// # RBAC
//
// In the namespace of the Lease, on resource leases of API group coordination.k8s.io:
//
//	create       until the Lease exists; cannot be restricted to a name
//	get, update  required; may be restricted by resourceNames
//	watch        optional, may be restricted by resourceNames; without it candidates poll every R, leaders learn
//	             of a loss from their next renewal, and both log it once
//
// Each watch takes a connection, some 30 kB in this process. So from the fourth Lease of a namespace
// on, the electors of one client share a watch of all Leases there. Where resourceNames do not
// permit that, or most of its events are about Leases of others, each elector watches its own Lease.
//
// [Config].PodUID needs watch on pods in the same namespace; without it, the leader's Pod is not
// watched, which is logged once.
//
// With [Config].Events, the recorder's client needs create and patch on events of API group
// events.k8s.io in that namespace (of group "" if the recorder is one of
// k8s.io/client-go/tools/record).
//
// A missing verb is logged by name at once, with all others that are missing if the API server
// reports them (SelfSubjectAccessReview, which every authenticated user may create by default). Run
// returns it as an error only after D, because roles may not have been created yet.
//
// # Mixed fleets
//
// Replicas with client-go's elector may contend for the same Lease, as in a migration. Our side
// keeps its guarantees: a term of ours ends before a client-go candidate may take over by expiry,
// and our release, which such a candidate takes at once, follows the work. A record without our
// mark is left alone for longer:
//
//   - for D + max(D/3, 5 s) without a change, where D is that of the record: 20 s by default;
//   - for D after it was emptied, unless TrustForeignRelease is set. A deposed client-go leader may
//     empty the record of its successor, so a record of ours that another process emptied is never
//     trusted.
//
// client-go's elector does not guarantee a single leader, and this package cannot do so in its
// place:
//
//   - Its leader counts from the answer to a renewal, and its work's context ends only after the
//     attempt to release. With ReleaseOnCancel and its defaults, work may continue for 22 s after
//     that answer if the network is silent (RetryPeriod and twice RenewDeadline; a request timeout
//     on its client shortens the last part), plus the answer's latency. The longer wait above covers
//     most of that, but not all.
//   - It releases when its context ends, whether or not work has ended, so we wait for one D.
//   - It takes an emptied or deleted record at once, even while our leader works.
//   - It takes a record with its own identity for its own.
//
// To migrate, roll replicas over as usual, in either direction, with the same LeaseDuration and
// with identities that are unique per process. Expect a pause of D when one of ours succeeds a
// client-go leader. Let the old program end its work before it cancels its elector's context;
// otherwise leave TrustForeignRelease off. Revoke "delete" on leases first. client-go's elector
// does not need "watch". All guarantees hold once the last client-go replica is gone.
//
// # Tests
//
// Package leaderelectiontest has an elector that a test elects and deposes at will. New accepts any
// kubernetes.Interface, so a fake clientset works, even in a testing/synctest bubble. Fake
// clientsets do not detect conflicts, so do not let two electors race on one.
//
// # Timing
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
// A leader counts not from the answer but from s, just before it sent the renewal that is in the
// record, or from a read that did not show it yet. It counts all time that may have passed,
// including suspension and forward steps of the wall clock. A candidate counts from when it received
// that version, which is later, and takes over by compare-and-swap on it. Neither compares its clock
// with a time from another process, so the leader has been silent for M when the first successor may
// start. Latency, lost responses and wrong clocks do not matter; M only needs to cover the drift
// between the clocks of two machines over D.
//
// After a crash, the next leader starts between D - R and D later. It starts within milliseconds if
// the process has a [Config].Supervisor, and M after the kubelet's report if that is the only
// proof. After a clean end it starts within milliseconds. A candidate without the right to watch
// takes up to R longer. A takeover whose outcome a candidate cannot learn costs it another D.
//
// # Requests without an answer
//
// A write of the Lease that has no answer is not given up while the term has time. After R, the
// leader reads the Lease on another connection and, if it is unchanged, sends the write again beside
// the first, then at ever shorter intervals. All of these writes are conditional on one version, so
// at most one is stored. A read that shows the old version proves that nothing was stored before the
// read was sent, so the term counts from there if one of the writes is stored later. Takeovers and
// releases work in the same way.
//
// So a leader survives a silence shorter than D - M - R, 9 s by default, and a server that takes up
// to 8 s for each write. The latter happens with a validating admission webhook that matches Leases,
// does not answer and may be ignored (failurePolicy Ignore), because each write takes its
// timeoutSeconds. From the second repetition on, the log names the possible cause. Exclude Leases
// from webhooks that match all resources.
//
// # What proves that a leader has ended
//
//   - The mark of a release, for the term that it names. The leader writes it after its work has
//     ended. Its supervisor writes it after the process has ended and it has waited for everything
//     that the process had started. Package supervisor has the rules.
//   - The kubelet's report that the leader's container has ended, if the leader has set
//     [Config].PodUID and a candidate may watch the Pod. The report must be of that Pod, and have
//     the leader's random mark in the termination message of a container (state or lastState). The
//     candidate waits for M more, because a request may be under way. Then it releases the Lease
//     for the process that had the mark, by one conditional write.
//   - The age of the record: unchanged for D.
//
// Nothing else proves it: not a missing holder, a deletion, a Pod that is gone, a phase, a
// DisruptionTarget or a lost node. The control plane reports these for a kubelet that does not
// answer, and the kubelet may have started the next container since its last report. Nor does a
// container's ID or restart count show which process has ended, because a process can read its
// container's ID only from a status, which may still be that of the previous container.
//
// # Handover
//
// A release records in the Lease's annotation bellwether.dev/written up to which version this term
// and earlier ones have written each resource with guarded clients: the mark of the release, a
// space, and JSON, such as {"configmaps":"4711","pods":""}. An empty version is unknown. A resource
// that is missing was not written, unless there is "*". Wait of package fresh reads the annotation,
// so that a successor with warm caches begins to work as soon as they show that much.
package leaderelection
