// Package fresh makes a new leader wait until its caches include everything that earlier leaders wrote.
//
// A candidate whose informers run before it leads is warm, so it need not list everything when it
// becomes the leader. But its caches may be behind, and its first reconciles then undo what the
// previous leader did, or do it twice. [Wait] returns when the caches have caught up:
//
//	source := fresh.NewRelister(fresh.Source(client.CoreV1().ConfigMaps("")))
//	warm := fresh.Cache{
//		Resource: corev1.Resource("configmaps"), Source: source,
//		Informer: cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}),
//	}
//	go warm.Informer.RunWithContext(ctx) // of the process, not of a term
//	err = elector.Run(ctx, func(ctx context.Context) error {
//		if err := fresh.Wait(ctx, warm); err != nil {
//			return err
//		}
//		return controller.Run(ctx)
//	})
//
// You need no separate standby function: start what runs on standby before Run, with the context of
// the process, and stop it after Run has returned. A helper would save no line and would hide the
// order in which they end. For controller-runtime, Standby of module controllerruntime does the
// same.
//
// # Leaders first
//
// An API server that has restarted refuses the watches of all informers. If every standby then lists
// everything at once, the lists that the work of the leaders waits for take long. So an informer made
// from a [Relister] lists later while its process is on standby:
//
//   - It waits for a random time of 10 to 60 s.
//   - Then it lists one object. If the API server takes more than a second to answer, it waits for as
//     long again, but for no more than 6 min in all. So standbys list one after the other, as fast as
//     the API server can serve them.
//   - A list that fails, or is throttled, waits again.
//   - When Wait is called because a term begins, it lists at once. This lasts until the term of Wait's
//     context is over, for leaders of package leaderelection and for shards. With the context of
//     another elector it lasts for good, because that does not show when the term is over.
//   - The first list of an informer never waits.
//
// While connections are refused, the informer tries again every 1 to 5 s, and at once when a term
// begins, because client-go would pause for up to a minute.
//
// # A relist
//
// A watch may hang for minutes without an error, and versions of an aggregated API server may not be
// numbers. With Cache.RelistAfter, such as 5 s, the informer of a Relister then lists everything again.
// Wait returns when it has seen the informer's store at the version of that list, which it compares
// with no other. Until then the informer has no watch. client-go pauses for 0.8 to 1.6 s before the
// list, and for up to 30 s if it has listed several times within two minutes.
//
// # Informers that show no more
//
// Wait returns an error at once for an informer that was stopped
// (TestAStoppedInformerIsNotWaitedFor), or whose transform removes the resourceVersion of objects
// (TestATransformThatRemovesVersionsIsAnError).
//
// # Guaranteed
//
//   - When Wait has returned nil, every cache shows what the guarded clients of earlier terms have
//     written, or a later state (TestSimulatedFreshTerms of package leaderelection,
//     TestNoChangeIsAboveWhatALogKnows of internal/handover).
//   - When WaitLatest has returned nil, or Wait without a release before, every cache shows each
//     write that the API server had acknowledged before the call, or a later state
//     (TestNoTermBeginsStale, TestWaitSeesThroughEveryLag). The same holds after a relist
//     (TestAWatchThatHangsIsReplacedByAList, TestAnInformerWithoutComparableVersionsLists).
//   - It also holds without a watch cache, where the resource need not change for the wait to end
//     (TestWithoutAWatchCacheEveryChangeIsWaitedFor, TestAListIsTheProofWithoutAWatchCache; on
//     kube-apiserver: TestAQuietResourceWithoutAWatchCacheIsFresh).
//   - An informer of a Relister that has to list again does so at once in a term
//     (TestACacheOfATermListsAtOnce, TestATermThatBeginsMeanwhileListsAtOnce), and at least 10 s and
//     at most 6 min later on standby (TestStandbysListLater, TestAStandbyWaitsForASlowServer).
//   - Both functions end with their context, and the error names the resource that is behind, its
//     version, and the one that it has to reach.
//
// # Not guaranteed
//
//   - What others have written, after a release: use WaitLatest for caches of what the leader reads
//     and others write, if it must not be older than what the previous leader has read.
//   - What the last leader has written with unguarded clients or in requests that the guard's Allow
//     lets pass, and what the API server itself changes in another resource for a write: use
//     WaitLatest.
//   - What a cache shows on standby: after a restart of the API server, an informer of a Relister may
//     be behind for 6 min. If a standby also serves requests from a cache, such as those of a
//     webhook, make that cache from another Source.
//   - Writes that arrive after the call. Call Wait within the term: if the previous leader used a
//     guarded client, none of its writes arrives then.
//   - What your own caches show, and what handlers have done, such as fill a work queue: Wait only
//     checks the informer's store.
//   - Without RelistAfter, resources whose versions cannot be compared: [ErrNotComparable]. Those
//     of kube-apiserver can (KEP-5504), including custom resources, but an aggregated API server
//     may have others.
//   - client-go's feature gates InOrderInformers and AtomicFIFO must be on, which is the default,
//     because without them a store's version proves less.
//   - A fake clientset gives objects no versions, so there Wait returns when the informers have
//     synced.
//
// # After a release
//
// A leader of package leaderelection whose clients are guarded (WrapTransport) records, with the
// release of its Lease, up to which version each resource was written. Wait then sends no request,
// but returns when the informer has reached that version. A resource that was not written is fresh
// at once.
//
// The version of a resource is unknown, so that Wait lists, if the last leader did not release its
// Lease, used an older version of this module, had no guarded client, deleted objects of that
// resource and created none since, or had no answer to a write.
//
// # With a list
//
// Otherwise, and with [WaitLatest], Wait lists one object, with a consistent read. The version of
// that list is the floor. What was written before has a lower one, so an informer that has reached
// the floor is fresh.
//
// The floor is a version of the whole of etcd, and an informer whose resource is quiet does not
// learn of it for up to a minute. So Wait also opens a watch at the informer's version, which the
// API server ends after 3 s, with a bookmark 2 s before that. If the bookmark is at the floor or
// later, the informer only has to reach the last event before it, and most often there is no such
// event.
//
// So each resource costs one list of one object and one watch, which take one to two seconds, or as
// long as the informer is behind. The informer's rights suffice: list and watch.
//
// # Without a watch cache
//
// Resources that the API server does not cache have no bookmarks: events, those that
// --watch-cache-sizes or --watch-cache=false of kube-apiserver exclude, and those of some
// aggregated API servers. If the watch has ended after 3 s without a bookmark, or its version is
// too old, Wait lists all objects, in pages of 500, keeps the key and version of each, and returns
// when the informer shows that list or a later state of its objects. That takes 3 s and the list,
// or as long as the informer is behind. After 30 s Wait begins again with a watch. If the informer
// of a Relister has no watch, so that it has to list everything itself, Wait leaves that to it for up
// to 30 s.
package fresh
