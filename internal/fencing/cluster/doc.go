// Package cluster is what the fence of a node does to the objects of the cluster: it keeps pods
// away from the node, releases those that were on it, and detaches their volumes, so that they come
// up elsewhere.
//
//	node, err := cluster.New(client, cluster.Config{Name: "worker-7", UID: uid, Incident: 1})
//	...
//	err = node.MarkUnschedulable(ctx, prove)
//	...
//	for progress := (cluster.Progress{}); !progress.Done; wait(progress.After) {
//		progress, err = node.DeletePods(ctx, prove, cluster.Options{}, progress)
//		...
//	}
//
// It does not know when the machine is off. Whoever uses it says so by a [Proof], which is asked
// before each request that takes something away from the node.
//
// # The release
//
// It has parts, which whoever uses it does in this order:
//
// 1. [Node.MarkUnschedulable]: or pods would come to the node while those that are there are
// deleted. 2. [Node.DeletePods], until it is done. 3. A quarter of a second later, for the cluster
// to see that these pods are gone, [Node.TaintOutOfService]: volumes are then detached without a
// look at the machine. It is needed also when nothing seems to be attached. There is no such part
// when only the pods of a [Storage] are released, because the taint is about all pods and volumes.
// 4. [Node.Left], until nothing is, or that has lasted too long: finalizers may keep pods, and
// drivers volumes, for ever. 5. [Node.UntaintOutOfService], and 2 s for the controllers that watch
// the node, because with the taint they detach volumes from a node that works too. Only then may
// the machine be switched on. Where a release is given up, for whatever reason, this is what has to
// be done.
//
// After a crash all of it is done once more, from the first part on: nobody knows how far the
// process had come that crashed.
//
// # Guaranteed
//
//   - Everything can be repeated: after a crash at any point, or an answer that was lost, the same
//     call by another process finishes what was begun. What is ours on a node says so itself: by
//     the keys and values of taints, by an annotation.
//   - A pod, a VolumeAttachment or a Node is only deleted if it is the very one that was listed: by
//     its UID. One that was made again under the same name, on another node, is never touched.
//   - The node is changed by patches that the API server refuses if the node has changed since it
//     was read: taints of others, their order and an admin's cordon survive whatever happens at the
//     same time.
//   - An out-of-service taint that somebody else has put stays.
//   - A request that needs proof begins within a second after its proof, or not at all: neither a
//     rate limit of the client nor a server that says "later" carries it over. It is a second by
//     the clock of this process: while the process is stopped just between the look at the clock
//     and the first byte, no clock helps.
//   - No call waits for anything but answers, 10 s for each, and a second for others who change the
//     node all the time.
//
// # Not guaranteed
//
//   - The controllers of Kubernetes that empty a node because of its taints delete pods by their
//     names, without a precondition, and may take seconds for a full node. Such a deletion that
//     comes after the release of a pod hits its successor, on another node, which ends and is
//     followed by another one. That is why the out-of-service taint comes after the pods are gone:
//     on a node with 41 such pods, 25 to 41 of the successors were deleted when it came first, and
//     none when it came after. It is also why it is better to release a node either well before or
//     well after its pods' tolerations of node.kubernetes.io/unreachable are over (5 min).
//   - Finalizers of others are not removed: a pod that has some stays, ended, until their owners
//     remove them.
//   - A cordon cannot be told from an admin's who cordons after us, see [Node.Cordon].
//   - Pods that tolerate everything and have not begun yet stay on the node.
//
// # RBAC
//
// In the whole cluster:
//
//	nodes                                       get            all but Evict and DetachVolumes
//	nodes                                       patch          for the taints and the cordon
//	nodes                                       delete         only Delete
//	pods                                        list           DeletePods, Left, Evict
//	pods                                        get, delete    only DeletePods
//	pods/status                                 patch          only DeletePods
//	pods/eviction                               create         only Evict
//	volumeattachments (storage.k8s.io)          list           Left, DetachVolumes
//	volumeattachments (storage.k8s.io)          delete         only DetachVolumes
//	persistentvolumeclaims, persistentvolumes   get            only with a Storage
//
// The client's rate limit should not be client-go's default of 5 requests in a second: a release
// sends two for each pod. Nor should it be the client by which the controller holds its leadership.
//
// # Tests
//
// Fake clientsets work, see the example. They know no preconditions: what happens when others write
// at the same time is only seen on a real API server. Give their nodes and pods UIDs.
package cluster
