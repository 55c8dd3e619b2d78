// Package proxy lets a program that knows nothing of rings be a shard. The program sends its requests
// to a [Proxy], which passes them to the API server as far as this shard may send them. Command
// bellwether run --ring starts programs in this way; see docs/any-controller.md.
//
//	replica, err := replica.New(config, replica.Config{Ring: "widgets", Resources: resources, ...})
//	...
//	handler, err := proxy.New(proxy.Config{
//		Shard: replica.Shard, Upstream: replica.ShardConfig, Mapper: mapper, Resources: resources,
//	})
//	...
//	access, err := proxy.Listen(handler)
//	...
//	err = replica.Run(ctx, func(ctx context.Context) error { return handler.Run(ctx, startProgram) }, nil)
//
// # What is guaranteed
//
// The test in brackets fails if the guarantee does not hold.
//
//   - A write to an object of the ring, or to a child of one, is sent only within [shard.Shard.Do],
//     while this shard owns the object (TestTwoProgramsShareTheObjects, and
//     TestSimulatedProxies of package sharder).
//   - It is a write to that object, not to another one that has its name by then
//     (TestJSONPatchesKeepTheMarks, TestAppliesHaveTheStampAndNoOtherMark, TestDeletionsAreOfOneObject).
//   - It leaves the ring's labels and annotations as they are
//     (TestMarksAreKeptAsTheyAreWhenTheWriteArrives), and what the program creates has no copies of
//     them (TestMarksThatAreCopiedAreNotCreated).
//   - A program without the token is refused (TestOnlyTheProgramHasAWayIn).
//
// # What is not guaranteed
//
//   - Requests that the program sends elsewhere, past the proxy, are not refused.
//   - A child without a controller, or whose controller is not in the ring, is not the ring's: writes
//     to it are only guarded by the shard's Lease. A write that gives a child another controller is
//     judged by the one that it had.
//   - A patch without resourceVersion is carried out whatever the program has read; only another
//     shard's writes are excluded.
package proxy
