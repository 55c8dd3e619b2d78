// Package controllerruntime connects the packages of this project to controllers that are made with
// sigs.k8s.io/controller-runtime. It is a module of its own, so that other programs do not get
// controller-runtime as a dependency.
//
// [WrapReconciler] is for the controllers of a shard, [Standby] for those of an elected program.
//
// # Warm standby
//
// A manager can be started once. So a program whose leader starts a manager has cold caches until it
// leads, and cannot lead twice. A Standby has two kinds of managers. One lives as long as the
// process, in every replica. It has the caches, and serves metrics, probes and webhooks. In each
// term, another one runs the controllers on these caches:
//
//	return controllerruntime.Standby{
//		Config: guarded, // by guarded.Wrap(elector.WrapTransport)
//		Warm:   []client.Object{&corev1.ConfigMap{}},
//	}.Run(ctx, elector.Run, func(mgr ctrl.Manager) error {
//		return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&reconciler{mgr.GetClient()})
//	})
//
// With StepDown of package leaderelection, the process survives that its Lease cannot be renewed,
// and leads again.
//
// The same for a shard, with StepDown of package replica. Its controllers are wrapped as always:
//
//	return controllerruntime.Standby{
//		Config: r.ShardConfig,
//		Options: ctrl.Options{Cache: cache.Options{NewInformer: r.Shard.NewInformer}},
//		Warm:    []client.Object{&corev1.ConfigMap{}},
//	}.Run(ctx, func(ctx context.Context, lead func(context.Context) error) error {
//		return r.Run(ctx, lead, nil)
//	}, setUp)
//
// The set-up function is called once in each term. It makes new reconcilers from the manager that it
// gets. What can be done only once in a process, such as the registration of metrics and webhooks,
// belongs into [Standby].SetUp, or before Run.
//
// # Guaranteed
//
// In brackets: the test that fails without it.
//
//   - An informer lists once in the life of the process, unless its watch breaks
//     (TestCachesSurviveTerms, TestAShardThatStepsDownKeepsItsCaches). In each term, it costs at
//     most what fresh.Wait does, for a shard twice that: a list of one object and short watches
//     (TestATermOfAShardDoesNotWaitForObjectsOfOthers).
//   - The controllers of a term begin when fresh.Wait says that their caches show what the terms
//     before have written. Nor do Get and List of the term's client return before that. This holds
//     for caches that the term makes as well (TestReadsOfATermAreFresh,
//     TestTheNextProcessIsWarmAndItsFirstReconcileIsFresh, TestAnInformerThatATermMakesIsFresh).
//     For kinds without a watch cache in the API server, such as Events, it takes 3 s and a list of all
//     objects (TestAControllerOfEventsBegins).
//   - A transform of the cache can remove what it likes, but not an object, nor its resourceVersion
//     (TestATransformKeepsObjectsAndTheirVersions).
//   - The lead function returns when all reconcilers, runnables and event handlers of the term have
//     returned, however long that takes (TestAReconcilerThatIgnoresItsContextKeepsTheTerm,
//     TestARunningEventHandlerKeepsTheTerm). Until then the Lease is held, or the process ends at
//     its deadline.
//   - An event handler that was added in a term gets no events after it, and is removed
//     (TestEventHandlersEndWithTheirTerm).
//   - The context of runnables and reconcilers is derived from that of the term: it ends at once
//     with the term, and a guarded request with it is sent in that term only
//     (TestARequestIsOfItsTermOnly).
//   - A term that ends while its caches are behind ends at once, as does the process
//     (TestATermEndsWhileItsCachesAreBehind, TestAProcessEndsWhileItsCachesAreBehind). A manager of
//     controller-runtime alone would wait until they have caught up.
//   - A process whose warm caches are not filled is no candidate (TestACandidateIsWarm).
//   - An error of the set-up function or of a runnable ends its term, and is the lead function's
//     error. What the process does then is the elector's matter, or that of the function around it
//     (TestAnErrorInATermEndsTheTermAndNotTheProcess).
//   - A field index serves all terms. The function of the first term makes it
//     (TestAnIndexServesAllTerms).
//
// # Not guaranteed
//
//   - Informers that a term got from elsewhere than its manager, goroutines of the user's, and
//     sources other than source.Kind: what they begin, they have to end.
//   - What the process' manager runs is not bound to a term. Its reads may be behind. Its client is
//     guarded all the same: it writes only while this process leads.
//   - An answer to the question whether two controllers of one term have the same name. Names are
//     not checked, because each term has the names of the one before.
//   - The priority queue of controller-runtime: the controllers of a term have the other one, unless
//     Options.Controller.UsePriorityQueue is true. In v0.24 and v0.25 a priority queue that ends may
//     leave a goroutine behind, one for each term.
//   - The gauge workqueue_depth: it keeps what an ended term has left in its queues.
//   - A controller whose caches have not caught up within CacheSyncTimeout, 2 min by default, ends
//     its term with an error, as it ends a manager of controller-runtime.
//   - A kind whose resource versions cannot be compared (package fresh says which) cannot be
//     watched, nor read from the cache.
//   - A kind of Warm that is not served, or that the process may not list: this process is no
//     candidate then. It says so in its log.
package controllerruntime
