// Package leaderforlife elects one Pod among replicas. That Pod leads until it ends. Import it as
// leader:
//
//	import leader "github.com/bellwether-k8s/bellwether/leaderforlife"
//
//	func main() {
//		if err := leader.Become(ctx, "my-daemon"); err != nil {
//			log.Fatal(err)
//		}
//		... // only the leader gets here
//	}
//
// The leader is the Pod that owns the lock: a ConfigMap (or, [WithLease], a Lease) with this name in
// the Pod's namespace, with the Pod as its owner. The leader renews nothing and never steps down.
// When the Pod is gone, the garbage collector removes the lock, and another Pod creates a new one.
// Candidates with permission to delete the lock do not wait for the collector.
//
// # Which of the two electors
//
// With package leaderelection, a leader that stops renewing ends, and another leads within seconds.
// Package leaderforlife elects a successor only when the leader is proven to have ended. Two Pods
// never lead at once, even if one is suspended for an hour or cut off, because this does not depend
// on time. (Deleting a Pod by force counts as proof, although its process may still run; see below.)
// The price is that nothing leads while the leader hangs, while its container keeps crashing, or
// while its node is lost and its fate is unknown. Against the first, give it a liveness probe.
//
// # Probes
//
// Become returns when this Pod leads. A candidate waits in it until the leader's Pod has ended,
// possibly for days, so serve probes before you call Become:
//
//   - Readiness: succeed until Become returns, and report the state of the work from then on. A
//     candidate is ready because waiting is its job. If only the leader were ready, a rollout would
//     never finish: it waits for the new Pod to become ready before it stops the old leader's Pod,
//     and the new Pod waits for the old leader to stop.
//   - Liveness: the same rule. Nothing but a failed liveness probe restarts a leader that hangs.
//
// Readiness therefore cannot select the leader for a Service. Select a label that the leader's Pod
// sets on itself, or use package endpoints.
//
// # What proves that a leader has ended
//
//   - Its Pod is Succeeded or Failed, for any reason (evicted, preempted, node shutdown), and none
//     of its containers was last reported to run. The phase alone proves nothing, because the
//     control plane sets it for nodes that do not answer.
//   - Its Pod is gone. Kubelets remove Pods whose containers have ended. A force deletion and the
//     Pod garbage collector claim that they have, and are believed, except with
//     [WithObservedPodEnd].
//   - With [WithNodeCheck]: its node is gone, or is not Ready and has the taint
//     node.kubernetes.io/out-of-service. An admin or a fencing controller sets that taint once the
//     machine is off. Not Ready alone proves nothing.
//   - With [WithFence]: your [Fence] reports it.
//
// Without a proof, candidates wait, and report for which Pod and why in the log and by
// [Hooks].OnWaiting.
//
// # Guaranteed
//
//   - From the return of Become until one of these proofs, no other Pod leads: no matter who
//     deletes the lock, the ReplicaSet or the Deployment, in which order requests arrive, and which
//     answers are lost.
//   - A Pod, a node or a lock counts as gone only if the API server states it of this object, by
//     its name. Any other answer proves nothing: a proxy's page with 404, 403 or 409, the 404 of an
//     API server that does not serve the resource, a Status about another object, an empty object
//     with the code 200. Such an answer is an error, which is logged once, and the request is
//     retried.
//   - A lock is deleted only by UID and resourceVersion. Labels are set and removed only on the
//     process' own Pod, by UID and resourceVersion, so a late request deletes no other lock and
//     disowns no leader.
//   - A candidate that can watch leads as soon as it receives the proof, and sends no requests
//     before, except that it reopens its watches and reads every 30 minutes.
//   - A pause, which doubles from 100 ms up to 15 s, follows each error of the API server.
//   - If the API server answers, no earlier leader still runs, and a candidate with all the verbs
//     below works, then some Pod leads within 45 s, whatever happened before: 10 s for a request
//     that has lost its answer, twice the longest pause, and 5 s for the requests. Late events add
//     to that, and so does a watch whose connection has died silently, for up to 30 minutes;
//     HTTP/2, client-go's default, notices after 45 s.
//   - When its context has ended, Become returns at once if it has written nothing. Otherwise it
//     undoes its writes and returns at most 7 s later (TestGivingUpIsBounded): 2 s for a write in
//     flight, and 5 s for requests that undo. It leaves no goroutine behind.
//   - An object of the lock's name that is not a lock, such as one without an owner or a Lease of
//     an elector, is an [ErrForeignLock] and is never written. Electors of packages leaderelection
//     and shardlease refuse locks of this package.
//
// # Not guaranteed
//
//   - Force deletion (kubectl delete --force, the Pod garbage collector) can remove a Pod whose
//     process runs, and then two Pods lead. WithObservedPodEnd prevents that. A false taint, or a
//     node removed while it runs, has the same effect.
//   - Removing the label leader.bellwether.dev/<lock> from the leader's Pod, and then its lock,
//     makes two leaders.
//   - Without the optional verbs below, less holds: see RBAC.
//   - A process that has outlived its Pod may take another Pod of that name for its own, if its
//     credentials are not bound to a Pod. Use the token that the kubelet mounts.
//   - A proxy that replays an old answer of the API server about an earlier Pod of the name is
//     believed.
//   - Requests of the old leader that are in flight when its Pod ends may arrive later, so write
//     with resourceVersions.
//   - A request of a candidate that gave up may arrive more than 2 s later. Its Pod may then have
//     the lock or the label, and the others wait for its end.
//   - On systems other than Linux, and in containers of one Pod with separate network namespaces,
//     two processes of one Pod may both lead.
//
// # RBAC
//
// In the namespace of the Pods. The minimal Role:
//
//	configmaps                 create          cannot be restricted to a name
//	configmaps                 get             here and below, resourceNames may restrict it to the lock
//	pods                       get
//
// With this Role alone, three things are missing, and each is logged once. Foreground deletion can
// make two leaders (although a candidate that has seen the lock still waits for its owner), a
// leader whose Pod has ended but is kept, such as that of a Job or an evicted one, has no successor
// before the Pod is deleted, and candidates poll. So grant these as well:
//
//	pods                 list, patch  closes the gap of foreground deletion
//	configmaps           delete       succession of Pods that have ended but are kept; required WithObservedPodEnd
//	configmaps, pods     watch        succession in milliseconds, and no requests while waiting
//	nodes (ClusterRole)  get, watch   only WithNodeCheck
//
// With WithLease, replace configmaps by leases of API group coordination.k8s.io. A process asks for
// the UID of its Pod by a SelfSubjectReview, which every authenticated user may create (Kubernetes
// 1.28 or later). patch on pods cannot be restricted to one's own Pod. If that is too much, a
// ValidatingAdmissionPolicy can compare the Pod's UID with authentication.kubernetes.io/pod-uid of
// the user.
//
// A refusal counts if it comes from the API server and has lasted for a second, because a starting
// API server refuses everything. Then one log line names all rights that are missing. Become
// returns an error if a required verb was refused for 15 s.
//
// # Coming from operator-lib
//
// leader.Become(ctx, "lock") of github.com/operator-framework/operator-lib/leader compiles with the
// import changed, and takes over existing locks. WithClient takes a clientset of client-go instead
// of a client of controller-runtime. The environment variable POD_NAME is not needed, because the
// token names the Pod. Change the Role to the one above; delete on pods is not needed.
//
// Differences:
//
//   - A lock belongs to the Pod with the UID in it. operator-lib compares names, and lets a new Pod
//     lead beside a living one with the same name.
//   - Pods that have ended are succeeded for any reason. operator-lib waits for ever for most
//     reasons.
//   - Deletions have preconditions.
//   - The leader's Pod and its lock are not deleted because its node is not Ready: without proof,
//     candidates wait.
//   - Errors back off.
//
// Replicas of both may run side by side during a rollout. Ours wait for the Pod of a lock that
// operator-lib has made. Theirs ignore the label, so they take the lock of one of our leaders if it
// is removed in the foreground or if the leader's node is not Ready. Do not delete in the
// foreground until the last one is gone.
//
// # Tests
//
// Fake clientsets work, even inside a testing/synctest bubble: see the example. They ignore
// preconditions, so do not let candidates race on one. Give fake Pods a UID that is not a UUID,
// because Become takes a UUID for one of an API server and keeps a socket for it, so that the next
// test with the same UUID waits for ever.
//
// # How it works
//
// A missing lock does not prove that its owner has ended. If a Pod, or the ReplicaSet or Deployment
// above it, is deleted in the foreground, the collector removes the lock within milliseconds, while
// the Pod still has its grace period. So a Pod that has created the lock takes these steps:
//
//  1. It labels itself with leader.bellwether.dev/<lock>=<UID of the lock>.
//  2. It reads the lock again.
//  3. It lists the Pods with that label.
//
// It leads only if the lock is still there and no other labelled Pod may still run. Two Pods cannot
// both lead, because the one whose label came later has found the label of the other.
//
// A Pod is identified by its UID, not by its name. A container that is restarted in the leader's
// Pod leads again at once; another Pod of that name, as in a StatefulSet, does not. If several
// processes of one Pod contend, one leads and the others wait for its end. On Linux an abstract
// socket ensures that for all containers of a Pod.
package leaderforlife
