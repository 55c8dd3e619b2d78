// Package endpoints publishes the live instances of a server behind a Service. It does for any
// server what kube-apiserver does for the Service kubernetes, even if the server does not run in a
// Pod.
//
//	reconciler, err := endpoints.New(client, endpoints.Config{
//		Namespace: "default", Service: "my-server",
//		Addresses: []netip.Addr{podIP},
//		Ports:     []endpoints.Port{{Name: "https", Number: 8443}},
//		Ready:     server.Ready,
//	})
//	...
//	err = reconciler.Run(ctx) // until ctx ends; then this instance is withdrawn: end the server after that
//
// The Service has no selector. Instances register in a store: one ConfigMap ([ConfigMapStore]) or a
// Lease for each instance ([LeaseStore]). In each [Config].Interval every instance does the same:
//
//   - It refreshes its own entry.
//   - It removes entries of others that were not refreshed for [Config].ExpireAfter.
//   - It makes the Service's EndpointSlices match the store, with one for each address family and set of ports.
//
// There is no leader, and no configured number of instances.
//
// # When an instance is dead
//
// An instance measures on its own monotonic clock how long it has seen another one's entry
// unchanged; times in the store are for people. Only time up to its last read of the store counts,
// and only while it refreshes its own entry in every round, so it restarts the wait for all others
// after an outage of the API server or a stop of its own process. If the others are well, a dead
// instance is gone between ExpireAfter and ExpireAfter plus two Intervals.
//
// It also waits for at least three times the longest of the other instance's last heartbeat
// intervals, so no instance expires because it has not yet read a shorter expiry
// ([Config].Settings).
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - Another instance removes an entry only if it was not refreshed for ExpireAfter, regardless of
//     clocks, latency and lost answers. The API server compares, so an entry that is refreshed at
//     the last moment stays (TestSimulatedConfigMapStore, TestSimulatedLeaseStore,
//     TestRemovalNeverTakesARefreshedEntry). Time in which no instance could refresh its entry does
//     not count (TestOutageExpiresNoInstance, TestStopWithinARoundExpiresNoInstance).
//   - Clocks that are hours apart, or are set, change nothing (TestClocksThatAreWrongChangeNothing,
//     and the simulations).
//   - A failed read changes nothing. A request that a heartbeat does not need cannot delay it for
//     long (TestReadErrorChangesNothing).
//   - An answer that does not come from the API server, such as a proxy's 404 page, is an error to
//     retry: it proves neither that an object is gone nor that a withdrawal has succeeded
//     (TestOddAnswerRemovesNoInstance, TestOddAnswerToARemovalTakesNoRefreshedEntryAway,
//     TestOddAnswerIsNoWithdrawal, TestOddAnswerLeavesNoStaleEntry,
//     TestOddAnswersKeepNoInstanceOut).
//   - A request without an answer is the last on its connection, so a load balancer that forgets a
//     connection delays a heartbeat by at most one Interval (or 4 s) plus a second, where client-go
//     alone needs 45 s over HTTP/2. Other requests on that connection continue
//     (TestForgottenConnectionIsLeft, TestSlowAnswerBreaksNoWatch).
//   - If the API server answers, a ready instance is published after at most two Intervals and 4 s,
//     regardless of what happened before. Others may change its objects meanwhile, as long as they
//     now and then leave each object alone for the duration of a round (TestSimulatedInterference,
//     and the other simulations).
//   - The loss of the store removes no published endpoint: endpoints stay until their instances
//     have had the time to register again (TestLostStoreRemovesNoEndpoint,
//     TestOutageAfterTheStoreWasLostRemovesNoEndpoint).
//   - Only an instance that withdraws itself empties the Service (TestEmptyStoreEmptiesNothing, the
//     simulations).
//   - An instance is withdrawn when the context of Run ends, when it is not ready, and when one
//     that is not ready starts, even if its entry has already expired
//     (TestInstancesAppearAndDisappear, TestInstanceIsPublishedOnlyWhileReady,
//     TestInstanceRemovesItsStaleEntryAtStart, TestWithdrawalAfterTheOwnEntryHasExpired). This
//     takes at most [Config].WithdrawTimeout plus one Interval (or 4 s) for the heartbeat in flight
//     (TestWithdrawalIsBounded).
//   - A Ready that does not return in time counts as not ready and delays nothing: Run,
//     ReconcileOnce and Withdraw return within the same bounds (TestReadyThatHangsIsNotReady,
//     TestRunEndsWhileReadyHangs, TestReconcileOnceAndWithdrawEndWhileReadyHangs). ReconcileOnce
//     takes at most one Interval (or 4 s), and Withdraw ends with its context.
//   - A process that was restarted with other ports or addresses immediately removes its
//     predecessor's entries if the predecessor has provably ended: both had the same
//     [Config].PodUID and had claimed it, which only one process of a Pod can do at a time. No
//     other proof counts: two instances with one address are two
//     (TestEntriesOfAPredecessorAreRemovedAtOnce, TestNothingButAProvedPredecessorIsRemoved).
//   - In a steady state each instance sends one write in each Interval and does not write to what
//     is published (TestOneHeartbeatEachIntervalAndNothingElse).
//   - EndpointSlices that others manage are left alone, while a changed slice of ours is repaired
//     (TestForeignSlicesAreLeftAlone, TestWrongSliceIsRepaired). An endpoint that moves to another
//     slice is never missing (TestEndpointsMoveWithoutAGap).
//   - An instance that finds no room in a ConfigMap gets an error and registers once there is room,
//     while the others continue (TestFullConfigMapIsAClearErrorAndLosesNothing,
//     TestConfigMapThatTheServerFindsFull, and TestWhatIsWrongIsSaid in internal/e2e/endpoints).
//   - A finalizer that keeps a deleted Lease or EndpointSlice keeps no endpoint published, but an
//     instance that refreshes such a Lease is published (TestDeadInstanceWhoseLeaseIsKeptStaysRemoved,
//     TestWithdrawnInstanceWhoseLeaseIsKeptStaysRemoved, TestLiveInstanceWhoseLeaseIsKeptStaysPublished,
//     TestSliceThatIsKeptHasNoEndpoint).
//   - An instance whose rounds fail logs that every 10 minutes, with the reason and the duration
//     (TestInstanceWhoseRoundsFailKeepsSayingIt).
//   - A malformed entry is reported but neither changed nor published, and does not keep others
//     from being published (TestMalformedEntryIsKeptAndReportedAndDoesNotSpread).
//   - An Endpoints object ([Config].PublishEndpoints) is created with a mark that keeps Kubernetes
//     from mirroring it into slices (TestLegacyEndpoints, and TestNoMirroredDuplicates in
//     internal/e2e/endpoints).
//
// # Not guaranteed
//
//   - A dead instance stays published until it has expired, so clients have to try another address.
//   - If all instances end without withdrawing, their endpoints stay until ExpireAfter after the
//     first new instance has started. New instances that crash before that keep them.
//     [Hooks].OnRound reports the ages.
//   - The store and the slices are not written together, so an instance that was stopped for long
//     between its decision and its write may remove an endpoint that has come back or restore one
//     that has gone. Any instance repairs that within an Interval.
//   - After a restart with other ports or addresses, the earlier process's entries stay until they
//     expire if its end is not proven: without PodUID, on systems other than Linux, and for a
//     second process of a Pod, which cannot claim the UID while the first one has it. The same
//     holds for endpoints under another port or address after the loss of the store, whereas
//     another name, protocol or hint of the same port is replaced at once.
//   - Hooks, Events, Logger, and a client that ignores contexts block Run while they block. Only
//     Ready may hang; a call that never returns leaves one goroutine behind, even after Run has
//     returned.
//   - If the answer to a process's first write is lost, the write may arrive after the withdrawal.
//     The entry then stays until it expires.
//   - Two processes with one address and port number share an entry, even if their protocols
//     differ, and take it from each other: let one process publish both. The later one keeps the
//     entry when the other withdraws. A process that starts and is not ready removes it once,
//     because it cannot find out whether the writer is dead
//     (TestProcessThatIsNotReadyLeavesAnotherOneAlone).
//   - If a Service gets a selector, instances stop refreshing their entries but stay published
//     until they end (TestServiceThatGetsASelector).
//   - An instance is published with its ports even if the Service lacks one of that name and protocol, and
//     with its addresses even if the Service lacks their family (spec.ipFamilies). Clients of the Service
//     cannot reach these; the instance logs that.
//   - A process whose address changes stays published under the old one until it ends Run; then it may
//     run a new Reconciler.
//   - A live instance whose Lease is deleted is removed until its next heartbeat; if a finalizer keeps the
//     Lease, this happens when the finalizer goes.
//   - A process with the right to write the store can remove instances and publish addresses.
//   - Time counts only between an instance's own heartbeats, so no instance expires while every one
//     keeps losing its connection within ExpireAfter.
//
// # Shutting down
//
// Because clients learn of a withdrawal shortly after it, end Run first, wait as long as your
// clients need, then end the server. A Pod's terminationGracePeriodSeconds must exceed the sum of
// Interval (or 4 s), WithdrawTimeout and this wait.
//
// # RBAC
//
// In the namespace of the Service:
//
//	services                       get                     may be restricted by resourceNames
//	endpointslices                 list, get, create,      of API group discovery.k8s.io
//	                               update, delete
//	configmaps                     get                     of [Config].Settings, if it is set
//	endpoints                      get, create, update     with [Config].PublishEndpoints
//
// For a ConfigMapStore, in its namespace:
//
//	configmaps                     get, patch, create      get and patch may be restricted by resourceNames
//
// For a LeaseStore, in its namespace, of API group coordination.k8s.io:
//
//	leases                         list, get, create, update, delete
//
// With [Config].Events, create and patch on events of API group events.k8s.io. A missing verb is an
// error that names it, in the log and in [Round].Err, while work that does not need the verb
// continues. The first time, one line names all missing verbs if the API server reports them
// (SelfSubjectAccessReview, which every authenticated user may create by default).
//
// # Clients
//
// Make the client from [ClientConfig], because a round has about five requests, which would wait behind
// others of the same client or connection. A client with a rate limit causes a warning in the log.
//
// Requests have timeouts of their own. After one without an answer, a client of client-go takes another
// connection (see Guaranteed); clients that are not made of rest.RESTClients may take longer.
//
// # Tests
//
// New takes a kubernetes.Interface, so a fake clientset works, also inside a testing/synctest
// bubble. Fake clientsets detect no conflicts, so do not let two instances race on one.
package endpoints
