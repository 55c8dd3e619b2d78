// Package endpoints publishes the live instances of a server behind a Service: what kube-apiserver does for the Service kubernetes, for any server,
// also one that does not run in a Pod.
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
// The Service has no selector. Every instance enters itself into a store, which is one ConfigMap ([ConfigMapStore]) or a Lease for each instance
// ([LeaseStore]), refreshes its entry every [Config].Interval, removes entries of others that were not refreshed for [Config].ExpireAfter, and makes
// the EndpointSlices of the Service say what the store holds: one for each address family and set of ports. All instances do the same,
// nobody leads, and nobody knows how many there should be.
//
// # When an instance is dead
//
// An instance judges another by how long it has itself seen the entry of that one unchanged, on its own monotonic clock. Times in the
// store are for people. It counts only time in which its own entry was refreshed in round after round, up to its last look at the store: after an
// outage of the API server, or its own stop, everybody gets the whole time anew. So a dead instance is gone after ExpireAfter to ExpireAfter and two
// Intervals, if the others were well.
//
// It also waits for three times the longest of the last intervals that it has seen between two heartbeats of the other one, so that no instance expires
// because it does not know yet that ExpireAfter has become shorter ([Config].Settings).
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - An entry is removed by another instance only if it was not refreshed for ExpireAfter, whatever the clocks, the latency and the loss of
//     answers; the server compares, so that one that is refreshed in the last moment stays (TestSimulatedConfigMapStore, TestSimulatedLeaseStore,
//     TestRemovalNeverTakesARefreshedEntry). That no other instance was able to refresh its entry either is no reason (TestOutageExpiresNoInstance,
//     TestStopWithinARoundExpiresNoInstance).
//   - Clocks that are hours apart, or are set, change nothing (TestClocksThatAreWrongChangeNothing, and the simulations).
//   - A read that fails changes nothing, and what a heartbeat does not need cannot delay it for long (TestReadErrorChangesNothing).
//   - An answer that does not come from the API server, such as a proxy's 404 page, is an error to
//     retry. It proves neither that an object is gone nor that a withdrawal has succeeded
//     (TestOddAnswerRemovesNoInstance, TestOddAnswerToARemovalTakesNoRefreshedEntryAway,
//     TestOddAnswerIsNoWithdrawal, TestOddAnswerLeavesNoStaleEntry, TestOddAnswersKeepNoInstanceOut).
//   - With an API server that answers, an instance that is ready is published after at most two
//     Intervals and 4 s, whatever came before, and whatever others do to its objects meanwhile, as
//     long as they leave an object alone for the time of a round now and then
//     (TestSimulatedInterference, and the other simulations).
//   - A store that is lost takes nobody away who is published: endpoints stay until their instances have had the time to come back
//     (TestLostStoreRemovesNoEndpoint, TestOutageAfterTheStoreWasLostRemovesNoEndpoint).
//   - Only an instance that withdraws itself empties the Service (TestEmptyStoreEmptiesNothing, the simulations).
//   - An instance is withdrawn when the context of Run ends, when it is not ready, and at the start of one that is not, also if its entry has expired
//     already (TestInstancesAppearAndDisappear, TestInstanceIsPublishedOnlyWhileReady, TestInstanceRemovesItsStaleEntryAtStart,
//     TestWithdrawalAfterTheOwnEntryHasExpired). That ends after [Config].WithdrawTimeout, and at most one Interval, or 4 s, for the heartbeat
//     under way (TestWithdrawalIsBounded).
//   - A Ready that does not return in its time counts as not ready, and keeps nothing waiting: Run,
//     ReconcileOnce and Withdraw return within the same bounds (TestReadyThatHangsIsNotReady,
//     TestRunEndsWhileReadyHangs, TestReconcileOnceAndWithdrawEndWhileReadyHangs). ReconcileOnce
//     takes at most one Interval, or 4 s; Withdraw ends with its context.
//   - A process that was restarted with other ports or addresses removes at once what the one
//     before had entered, if it is proved that this has ended: both had the same
//     [Config].Incarnation, and had claimed it, which only one process of a Pod can at a time.
//     Nothing else is such a proof: two instances of one address are two
//     (TestEntriesOfAPredecessorAreRemovedAtOnce, TestNothingButAProvedPredecessorIsRemoved).
//   - In a steady state there is one write for each instance and Interval, and none to what is published (TestOneHeartbeatEachIntervalAndNothingElse).
//   - EndpointSlices that somebody else manages are left alone; one of ours that was changed is repaired (TestForeignSlicesAreLeftAlone,
//     TestWrongSliceIsRepaired). An endpoint that comes into another slice is never missing (TestEndpointsMoveWithoutAGap).
//   - Who has no room in a ConfigMap is told so and comes in when there is, and the others go on (TestFullConfigMapIsAClearErrorAndLosesNothing,
//     TestConfigMapThatTheServerFindsFull, and TestWhatIsWrongIsSaid in internal/e2e/endpoints).
//   - A malformed entry is reported, left as it is, and published nowhere; it keeps no other from being published
//     (TestMalformedEntryIsKeptAndReportedAndDoesNotSpread).
//   - An Endpoints object ([Config].PublishEndpoints) is marked from its creation on so that Kubernetes makes no slices of it a second time
//     (TestLegacyEndpoints, and TestNoMirroredDuplicates in internal/e2e/endpoints).
//
// # Not guaranteed
//
//   - A dead instance is published until it has expired. Clients have to try another address.
//   - If all instances have ended without withdrawing, their endpoints stay until ExpireAfter after the first new one has started; instances that
//     crash again before that keep them. [Hooks].OnRound tells the ages.
//   - The store and the slices are not written together. What an instance has decided before it was stopped for long may, when it is woken, take
//     away an endpoint that has come back meanwhile, or bring one that has gone; any instance repairs that within an Interval.
//   - After a restart with other ports or addresses, what the earlier process had entered stays
//     until it has expired if its end is not proved: without Incarnation, on other systems than
//     Linux, and for a second process of a Pod, which cannot claim it while the first one has it.
//     The same goes for what is published under another port or address when the store was lost.
//     Another name, protocol or hint of the same port is replaced at once.
//   - What you provide and what blocks, blocks Run: Hooks, Events, Logger, Clock, and a client that
//     does not heed contexts. Only Ready may hang; a call that never returns is one goroutine that
//     stays, also when Run has returned.
//   - The first write of a process whose answer was lost may arrive after its withdrawal. The entry then stays until it has expired.
//   - Two processes with one address and port share an entry. The one that came last keeps it when the other withdraws. One that starts and is not
//     ready removes what is there, once: it cannot know that it is not a dead one's (TestProcessThatIsNotReadyLeavesAnotherOneAlone).
//   - If a Service gets a selector, instances stop refreshing their entries, and stay published until they end (TestServiceThatGetsASelector).
//   - Whoever may write the store may remove instances, and publish addresses.
//   - Ages count only between an instance's own heartbeats: as long as every instance loses its connection again and again within ExpireAfter, nobody expires.
//
// # Shutting down
//
// Clients learn of a withdrawal a moment after it: end Run first, wait as long as your clients need, then end the server. A Pod's
// terminationGracePeriodSeconds has to be longer than Interval (or 4 s), WithdrawTimeout and that.
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
// With [Config].Events, create and patch on events of API group events.k8s.io. A missing verb is an error that names it, in the log and
// in [Round].Err; what does not need the verb goes on.
//
// # Clients
//
// Use a client whose rate limit others do not exhaust: a round has some five requests. If it is slow, so are heartbeats.
//
// # Tests
//
// New takes a kubernetes.Interface, so a fake clientset works, also inside a testing/synctest bubble. Fake clientsets detect no
// conflicts: do not let two instances race on one.
package endpoints
