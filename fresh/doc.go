// Package fresh makes a new leader wait until its caches include everything that earlier leaders wrote.
//
// A candidate whose informers run before it leads is warm: it need not list everything when it
// becomes the leader. But its caches may be behind. Its first reconciles then undo what the leader
// before it did, or do it twice. [Wait] returns when the caches have caught up:
//
//	configMaps := informers.NewSharedInformerFactory(client, 0).Core().V1().ConfigMaps().Informer()
//	go configMaps.RunWithContext(ctx) // of the process, not of a term
//	warm := fresh.Cache{
//		Resource: corev1.Resource("configmaps"), Informer: configMaps,
//		Source: fresh.Source(client.CoreV1().ConfigMaps("")),
//	}
//	err = elector.Run(ctx, func(ctx context.Context) error {
//		if err := fresh.Wait(ctx, warm); err != nil {
//			return err
//		}
//		return controller.Run(ctx)
//	})
//
// You need no separate standby function: start what runs on standby before Run, with the context of
// the process, and stop it after Run has returned. A helper would save no line, and it would hide the
// order in which they end. For controller-runtime, Standby of module controllerruntime does the same.
//
// # After a release
//
// A leader of package leaderelection whose clients are guarded (WrapTransport)
// leaves, with the release of its Lease, up to which version each resource was written. Wait then
// sends no request: it returns when the informer has reached that version. A resource that was not
// written is fresh at once.
//
// The version of a resource is not known, and Wait lists, if the last leader has not released its
// Lease, is of an older version of this module, or has no guarded client; if it has deleted objects
// of that resource and created none since; and if a write had no answer.
//
// # With a list
//
// Otherwise, and with [WaitLatest], Wait lists one object, with a consistent read. The version of that
// list is the floor: what was written before has a lower one. An informer that has reached the floor
// is fresh.
//
// The floor is a version of the whole of etcd, and an informer whose resource is quiet does not
// learn of it for up to a minute. So Wait also opens a watch at the informer's version, which the
// API server ends after 3 s. It sends a bookmark 2 s before that. If that is at the floor or later,
// the last event before it is all that the informer has to reach. Most often there is none.
//
// So each resource costs one list of one object and one watch. That takes one to two seconds, or as
// long as the informer is behind. The rights of the informer are enough: list and watch.
//
// # Without a watch cache
//
// A resource that the API server does not cache has no bookmarks: events, what --watch-cache-sizes or
// --watch-cache=false of kube-apiserver exclude, and those of some aggregated API servers. If the watch
// has ended after 3 s without a bookmark, or its version is too old, Wait lists all objects, in pages of
// 500, and keeps the key and version of each. It returns when the informer shows that list, or a later
// state of its objects. That takes 3 s and the list, or as long as the informer is behind. After 30 s
// Wait begins again with a watch.
//
// # A relist
//
// A watch may hang for minutes without an error, and versions of an aggregated API server may not be
// numbers. With Cache.RelistAfter the informer then lists everything again:
//
//	source := fresh.NewRelister(fresh.Source(client.CoreV1().ConfigMaps("")))
//	warm := fresh.Cache{
//		Resource: corev1.Resource("configmaps"), Source: source, RelistAfter: 5 * time.Second,
//		Informer: cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}),
//	}
//
// Wait returns when the informer's store has been seen at the version of that list, and compares it
// with no other. Until then the informer has no watch. Client-go pauses for 0.8 to 1.6 s before the
// list, and for up to 30 s if it has listed several times within two minutes.
//
// # Informers that show no more
//
// Wait has an error, and does not wait, for an informer that has been stopped
// (TestAStoppedInformerIsNotWaitedFor), or whose transform removes the resourceVersion of objects
// (TestATransformThatRemovesVersionsIsAnError).
//
// # Guaranteed
//
//   - When Wait has returned nil, every cache shows what the guarded clients of the terms before have
//     written, or a later state (TestSimulatedFreshTerms of package leaderelection,
//     TestNoChangeIsAboveWhatALogKnows of internal/handover).
//   - When WaitLatest has returned nil, or Wait without a release before, every cache shows each write
//     that the API server had acknowledged before the call, or a later state (TestNoTermBeginsStale,
//     TestWaitSeesThroughEveryLag). After a relist, too (TestAWatchThatHangsIsReplacedByAList,
//     TestAnInformerWithoutComparableVersionsLists).
//   - The same holds without a watch cache, and such a resource need not change for the wait to end
//     (TestWithoutAWatchCacheEveryChangeIsWaitedFor, TestAListIsTheProofWithoutAWatchCache; on
//     kube-apiserver: TestAQuietResourceWithoutAWatchCacheIsFresh).
//   - Both end with their context, and the error names the resource that is behind, its version, and
//     the one that it has to reach.
//
// # Not guaranteed
//
//   - What others have written, after a release: use WaitLatest for caches of what the leader reads
//     and others write, if it must not be older than what the leader before has read.
//   - What clients of the last leader have written that are not guarded, or in requests that the
//     guard's Allow lets pass, and what the API server changes by itself for a write, in another
//     resource: use WaitLatest.
//   - Writes that arrive after the call. Call Wait within the term. If the leader before used a
//     guarded client, none of its writes arrives then.
//   - What caches of your own show, and handlers that have not run: Wait asks the informer's store.
//     A work queue is filled by handlers.
//   - Without RelistAfter, resources whose versions cannot be compared: [ErrNotComparable]. Those of
//     kube-apiserver can (KEP-5504), with custom resources. An aggregated API server may have others.
//   - Client-go's feature gates InOrderInformers and AtomicFIFO have to be on, which is the default.
//     Without them a store's version says less.
//   - A fake clientset gives objects no versions. There Wait returns when the informers have synced.
package fresh
