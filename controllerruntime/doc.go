// Package controllerruntime connects Bellwether to controllers that are made with
// sigs.k8s.io/controller-runtime. It is a separate module, so that other programs do not depend on
// controller-runtime.
//
// [WrapReconciler] is for the controllers of a shard, [Standby] for those of an elected program.
//
// # Warm standby
//
// A manager can be started only once, so a program whose leader starts one has cold caches until it
// leads, and cannot lead twice. A Standby therefore has two kinds of managers. One lives as long as
// the process, in every replica; it has the caches and serves metrics, probes and webhooks. In each
// term, another one runs the controllers on these caches:
//
//	return controllerruntime.Standby{
//		Config: guarded, // by guarded.Wrap(elector.WrapTransport)
//		Warm:   []client.Object{&corev1.ConfigMap{}},
//	}.Run(ctx, elector.Run, func(mgr ctrl.Manager) error {
//		return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&reconciler{mgr.GetClient()})
//	})
//
// With StepDown of package leaderelection, the process survives a Lease that cannot be renewed, and
// can lead again.
//
// A shard does the same with StepDown of package replica. Its controllers are wrapped as always:
//
//	return controllerruntime.Standby{
//		Config: r.ShardConfig,
//		Options: ctrl.Options{Cache: cache.Options{NewInformer: r.Shard.NewInformer}},
//		Warm:    []client.Object{&corev1.ConfigMap{}},
//	}.Run(ctx, func(ctx context.Context, lead func(context.Context) error) error {
//		return r.Run(ctx, lead, nil)
//	}, setUp)
//
// The set-up function is called once in each term and makes new reconcilers from the manager that
// it gets. What can be done only once in a process, such as registering metrics and webhooks,
// belongs in [Standby].SetUp or before Run.
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - An informer lists once in the life of the process, unless its watch breaks
//     (TestCachesSurviveTerms, TestAShardThatStepsDownKeepsItsCaches). In each term it costs at
//     most what fresh.Wait costs (twice that for a shard): a list of one object and short watches
//     (TestATermOfAShardDoesNotWaitForObjectsOfOthers).
//   - When the API server has restarted, so that all informers have to list again, those that a term
//     uses list at once. Those of standbys list 10 s to 6 min later, one after the other, unless a
//     term begins meanwhile (TestStandbysListAfterTheLeader). Package fresh has the details.
//   - The controllers of a term begin, and Get and List of the term's client return, only when
//     fresh.Wait reports that the caches show what earlier terms have written. This includes caches
//     that the term makes (TestReadsOfATermAreFresh,
//     TestTheNextProcessIsWarmAndItsFirstReconcileIsFresh, TestAnInformerThatATermMakesIsFresh). For
//     kinds without a watch cache in the API server, such as Events, it takes 3 s and a list of all
//     objects (TestAControllerOfEventsBegins).
//   - A transform of the cache can remove anything except an object or its resourceVersion
//     (TestATransformKeepsObjectsAndTheirVersions).
//   - The lead function returns when all reconcilers, runnables and event handlers of the term have
//     returned, however long that takes (TestAReconcilerThatIgnoresItsContextKeepsTheTerm,
//     TestARunningEventHandlerKeepsTheTerm). Until then the Lease is held, or the process ends at
//     its deadline.
//   - An event handler that was added in a term gets no events after the term, and is removed
//     (TestEventHandlersEndWithTheirTerm).
//   - The context of runnables and reconcilers is derived from that of the term, so it ends at once
//     with the term, and a guarded request with it is sent in that term only
//     (TestARequestIsOfItsTermOnly).
//   - A term that ends while its caches are behind ends at once, as does the process
//     (TestATermEndsWhileItsCachesAreBehind, TestAProcessEndsWhileItsCachesAreBehind). A manager of
//     controller-runtime alone would wait until they have caught up.
//   - A process whose warm caches are not filled is no candidate (TestACandidateIsWarm).
//   - An error of the set-up function or of a runnable ends its term and becomes the lead
//     function's error. What the process does then is up to the elector or the function around it
//     (TestAnErrorInATermEndsTheTermAndNotTheProcess).
//   - A field index serves all terms; the function of the first term makes it
//     (TestAnIndexServesAllTerms).
//
// # Not guaranteed
//
//   - Informers that a term did not get from its manager, your own goroutines, and sources other
//     than source.Kind have to end what they begin.
//   - What the process's manager runs, such as webhooks, is not bound to a term, and its reads may be
//     behind: on standby for up to 6 min after a restart of the API server. Its client is still
//     guarded, so it writes only while this process leads.
//   - Informers of your own Options.Cache.NewInformer list again at once, except those of a shard.
//   - Two controllers of one term may have the same name: names are not checked, because each term
//     reuses those of the one before.
//   - The controllers of a term do not use controller-runtime's priority queue unless
//     Options.Controller.UsePriorityQueue is true, because in v0.24 and v0.25 a priority queue that
//     ends may leave a goroutine behind in each term.
//   - The gauge workqueue_depth keeps counting what an ended term left in its queues.
//   - A controller whose caches have not caught up within CacheSyncTimeout (2 min by default) ends
//     its term with an error, just as it ends a manager of controller-runtime.
//   - A kind whose resource versions cannot be compared (see package fresh) can be neither watched
//     nor read from the cache.
//   - A process is no candidate if a kind of Warm is not served or may not be listed; its log reports that.
package controllerruntime
