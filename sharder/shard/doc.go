// Package shard is the working replica of a ring. It admits work on the objects that are assigned
// to it, ends work on those that it must hand over, and refuses work on all others.
//
//	worker, err := shard.New(metadata, mapper, lease, shard.Config{Resources: resources})
//	...
//	informer := worker.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client),
//		&corev1.ConfigMap{}, 0, cache.Indexers{})
//	err = shard.RunController(ctx, worker, informer, 2, reconcile)
//
// A shard needs a lease of package shardlease, clients that the lease guards, and caches that
// [Shard.NewInformer] makes. It also works while no sharder runs. The documentation of package
// sharder describes the protocol, its guarantees and non-guarantees, costs and RBAC.
package shard
