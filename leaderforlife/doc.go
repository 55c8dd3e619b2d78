// Package leaderforlife elects one Pod among replicas, which then leads until it ends. Import it as leader:
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
// The leader is the Pod that owns the lock: a ConfigMap (or a Lease, [WithLease]) of that name in its namespace, with the Pod as its owner. It
// renews nothing, and never has to step down. When the Pod is gone the garbage collector removes the lock, and another Pod makes a new
// one; candidates that may do so do not wait for the collector.
//
// # Which of the two electors
//
// Package leaderelection ends a leader that does not answer, and elects another within seconds. Here a leader is only succeeded when it
// is proven to have ended: two never lead at once, also if one is stopped for an hour, suspended or cut off, and there is no
// arithmetic of time by which that holds. In return nobody leads while the leader hangs, while its container crashes again and again,
// or while its node is lost and nobody says what became of it. Give the leader a liveness probe.
//
// # How it works
//
// That a lock is gone does not prove that its owner is: if a Pod, or the ReplicaSet or Deployment above it, is deleted in the foreground,
// the collector removes the lock within milliseconds, while the Pod has its grace period still before it. So who has made the lock
// labels its Pod with leader.bellwether.dev/<lock>=<UID of the lock>, then reads the lock again and lists the Pods with that label, and
// leads only if the lock is still there and no other Pod has the label that may run. Of two who did so, the one whose label came later has
// found that of the other.
//
// A Pod is known by its UID, not by its name. A container that is restarted in the leader's Pod is the leader again at once;
// another Pod of the name, as a StatefulSet makes them, is not. Of several processes of one Pod one is the leader, the others wait for
// its end: on Linux by an abstract socket, which all containers of a Pod share.
//
// # What proves that a leader has ended
//
//   - Its Pod is Succeeded or Failed, for whatever reason (evicted, preempted, node shutdown), and no container of it was last
//     reported to run. The phase alone is no proof: the control plane writes it for nodes that do not answer.
//   - Its Pod is gone. Kubelets remove Pods whose containers have ended; people and controllers who delete one by force, and
//     the Pod garbage collector, say that it has, and are believed. [WithObservedPodEnd] does not believe it.
//   - With [WithNodeCheck]: its node is gone; or is not Ready and has the taint node.kubernetes.io/out-of-service, by which an
//     admin or a fencing controller says that the machine is off. Not Ready alone proves nothing.
//   - With [WithFence]: your [Fence] says so.
//
// While none is there, candidates wait and say for whom and why, in the log and by [Hooks].OnWaiting.
//
// # Guaranteed
//
//   - From when Become returns until one of these proofs, no other Pod leads: whoever deletes the lock, the ReplicaSet or the Deployment, in
//     whatever order requests arrive, whichever answers are lost.
//   - A Pod, a node or a lock is gone only if the API server says so of this object, by its name.
//     Any other answer proves nothing: a proxy's page with 404, 403 or 409, the 404 of an API
//     server that does not serve the resource, a Status about something else, an empty object with
//     the code 200. It is an error, said in the log once, and the request is sent again.
//   - A lock is deleted only by UID and resourceVersion, labels are set and removed only on the own Pod, by UID and
//     resourceVersion: a late request meets nobody else's lock and disowns no leader.
//   - A candidate that can watch leads as soon as it sees the proof, and sends no requests before; every 30 minutes it opens its watches
//     again, and reads.
//   - An error of the API server is followed by a pause, longer and longer up to [WithMaxBackoff].
//   - When the API server answers, no leader has still to end, and a candidate with all the verbs
//     below is well, somebody leads within 45 s, whatever happened before: 10 s for a request that
//     has lost its answer, twice WithMaxBackoff, and 5 s for the requests. Events that arrive late
//     add to that. So does a watch whose connection has died without a word, up to 30 minutes:
//     HTTP/2, which client-go uses by default, notices after 45 s.
//   - Become returns at once when its context has ended; at most 5 s later if a write of it is under way, which it finishes or
//     undoes. It leaves no goroutine behind.
//   - An object of the lock's name that is not a lock, such as one without an owner or a Lease of an elector, is an [ErrForeignLock]
//     and is never written. Electors of packages leaderelection and shardlease refuse locks of this package.
//
// # Not guaranteed
//
//   - Force deletion (kubectl delete --force, the Pod garbage collector) can remove a Pod whose process runs. Use WithObservedPodEnd if
//     that must not make two leaders. The same goes for a taint or a removed node that is a lie.
//   - Whoever removes the label from the leader's Pod, and then its lock, makes two leaders.
//   - Without the optional verbs below, less holds: see RBAC.
//   - A process that has outlived its Pod, and finds another Pod of its name, takes that for its own if its credentials are not bound to
//     a Pod: use the token that the kubelet mounts.
//   - A proxy that answers with what the API server has said earlier, of a Pod of the name that was
//     there before, is believed.
//   - Requests of the old leader that are under way when its Pod has ended arrive when they arrive. Write with resourceVersions.
//   - If a request of a candidate that gave up arrives later than 2 s after that, its Pod may have the lock or the label, and the others
//     wait for its end.
//   - On systems other than Linux, and in containers of one Pod that share no network namespace, nothing keeps two processes of one Pod from leading.
//
// # RBAC
//
// In the namespace of the Pods. The Role that is needed at least:
//
//	configmaps                 create          cannot be restricted to a name
//	configmaps                 get             here and below, resourceNames may restrict it to the lock
//	pods                       get
//
// Without more, foreground deletion can make two leaders (a candidate that has seen the lock still waits for its owner), a leader
// whose Pod has ended but is kept, as those of Jobs and evicted ones are, is not succeeded before the Pod is deleted, and candidates
// poll. Each is said once in the log. So grant also:
//
//	pods                       list, patch     closes the gap of foreground deletion
//	configmaps                 delete          succession of Pods that have ended but are kept; required WithObservedPodEnd
//	configmaps, pods           watch           succession in milliseconds, and no requests while waiting
//	nodes (ClusterRole)        get, watch      only WithNodeCheck
//
// With WithLease it is leases of API group coordination.k8s.io instead of configmaps. The own UID
// is asked for by a SelfSubjectReview, which every authenticated user may create (Kubernetes 1.28
// or later). patch on pods cannot be restricted to the own Pod; where that is too much, a
// ValidatingAdmissionPolicy can compare the Pod's UID with authentication.kubernetes.io/pod-uid of
// the user.
//
// A refusal counts when it is the API server's, and has lasted for a second: one that starts
// refuses everything. An indispensable verb is an [AccessError] after 15 s.
//
// # Coming from operator-lib
//
// leader.Become(ctx, "lock") of github.com/operator-framework/operator-lib/leader compiles with the import changed, and takes locks that
// it has made. WithClient takes a clientset of client-go instead of a client of controller-runtime. The environment variable POD_NAME is not
// needed any more, because the token says which Pod it is. Change the Role to that above; delete on pods is not needed any more, either.
//
// What differs: a lock belongs to the Pod with the UID in it, where operator-lib goes by the name, and lets a Pod that was made again
// under the name of a living one lead. Pods that have ended are succeeded whatever the reason, where it waits for ever on all but some.
// Deletions have preconditions. Nobody deletes the leader's Pod or its lock because its node is not Ready: without proof it waits.
// Errors back off.
//
// Replicas of both may run side by side while you roll over: ours wait for the Pod of a lock that operator-lib has made. Theirs do not
// know the label, and take the lock of a leader of ours if it is removed in the foreground or its node is not Ready; so do not
// delete in the foreground until the last one is gone.
//
// # Tests
//
// Fake clientsets work, also inside a testing/synctest bubble: see the example. They ignore preconditions: do not let candidates race on
// one. Give fake Pods a UID; if it looks like one of an API server (a UUID), Become takes the socket for it and keeps it, so that the next
// test that uses the same one waits for ever.
package leaderforlife
