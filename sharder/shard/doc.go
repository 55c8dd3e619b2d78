// Package shard is the working replica of a ring: it admits work on the objects that are assigned to it, ends work on those that
// it is asked to hand over, and refuses work on all others.
//
//	worker, err := shard.New(metadata, mapper, lease, shard.Config{Resources: resources})
//	...
//	informer := worker.NewInformer(shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client), &corev1.ConfigMap{}, 0, cache.Indexers{})
//	err = shard.RunController(ctx, worker, informer, 2, reconcile)
//
// A shard needs a lease of package shardlease, clients that this guards, and caches that [Shard.NewInformer] has made. It works
// while no sharder runs. The protocol, its guarantees and non-guarantees, costs and RBAC are in the documentation of package
// sharder, which package shard does not import.
package shard
