// Package shardertest helps to test sharded controllers without a cluster. [New] makes one shard on
// client-go's fakes, with the kinds of your scheme, and the test acts as the sharder:
//
//	synctest.Test(t, func(t *testing.T) {
//		ring := shardertest.New(t, shardertest.Config{Scheme: scheme, Resources: resources})
//		ring.Run(func(ctx context.Context) { // the shard holds its lease
//			ring.Go(func(ctx context.Context) error {
//				return shard.RunController(ctx, ring.Shard, ring.Informer(widgets), 2, reconcile)
//			})
//			ring.Assign(widget)
//			synctest.Wait() // until nothing is left to do
//			ring.Get(widget)
//			... // assert what reconcile has done
//		})
//	})
//
// The example is an operator of a custom resource. With controller-runtime, make the reconciler's
// client with
// fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(ring.Tracker).WithRESTMapper(ring.Mapper).
//
// An assertion that fails, in the test or in the work, fails the test that it is in. The shard's
// lease is then lost or released, but the process does not end.
//
// # What the fakes do not have
//
//   - Versions: client-go's fakes give objects no resourceVersion, and their writes do not
//     conflict. In controller-runtime's fake, an update conflicts with a later change by the same
//     client, but not with those of other clients. Do not let two replicas race on one object.
//   - Field managers: server-side apply creates an object, or merges the given fields into one. It
//     removes no field that was applied before, and finds no conflict.
//   - A guard: work is admitted although no client is guarded, and nothing refuses its late writes.
//   - Finalizers: what is deleted is gone at once. Test a deletion with one on an API server.
//   - Admission, defaults, validation, garbage collection, and field selectors beyond those of the
//     fakes.
package shardertest
