// Package cluster changes the objects of the cluster for the fence of a node. It keeps pods away
// from the node, releases the pods on it, and detaches their volumes, so that they start elsewhere.
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
// The package cannot tell whether the machine is off, so the caller passes a [Proof], which is
// called before each request that removes something from the node.
//
// # The release
//
// The caller releases a node in this order:
//
//  1. [Node.MarkUnschedulable]. Otherwise new pods would come to the node while the others are
//     deleted.
//  2. [Node.DeletePods], until it is done.
//  3. [Node.TaintOutOfService], a quarter of a second later, so that the cluster has seen that the
//     pods are gone. Volumes are then detached without asking the machine. This is necessary even
//     if nothing seems to be attached. Skip it if only the pods of an [api.Storage] are released,
//     because the taint affects all pods and volumes.
//  4. [Node.Left], until nothing is left or it has lasted too long. Finalizers can keep pods for
//     ever, and drivers volumes.
//  5. [Node.UntaintOutOfService], and a wait of 2 s for the controllers that watch the node,
//     because with the taint they also detach volumes from a working node. Only then may the
//     machine be switched on. Also do this if a release is given up.
//
// After a crash, repeat the release from the first part.
//
// # Guaranteed
//
//   - All calls can be repeated. After a crash at any point, or a lost answer, the same call by
//     another process completes the change. Keys and values of taints and an annotation mark what
//     this package has put on a node.
//   - A pod, VolumeAttachment or Node is deleted only if it has the UID that was listed. A new
//     object of the same name is never touched.
//   - Patches of a node fail if the node has changed since it was read. Taints of others, their
//     order, and the cordon of an admin survive concurrent changes.
//   - A foreign out-of-service taint stays.
//   - A request that needs proof starts within a second after its proof, or not at all. Neither the
//     rate limit of the client nor a server that asks to retry later delays it. The second is
//     measured by the clock of this process, and does not cover a process that is stopped between
//     reading the clock and the first byte.
//   - Calls wait only for answers, at most 10 s for each, and at most a second for others who keep
//     changing the node.
//
// # Not guaranteed
//
//   - The controllers of Kubernetes that evict pods from a tainted node delete them by name,
//     without a precondition, and may take seconds for a full node. Such a deletion after the
//     release of a pod hits its successor on another node, which ends and is replaced. The
//     out-of-service taint therefore comes after the pods are gone: on a node with 41 such pods, 25
//     to 41 successors were deleted with the taint first, but no successor with the taint last. For
//     the same reason, release a node well before or well after its pods' tolerations of
//     node.kubernetes.io/unreachable end (5 min).
//   - Finalizers of others are not removed. Pods with finalizers stay, ended, until the owners
//     remove them.
//   - A cordon by an admin after ours cannot be distinguished; see [Node.Cordon].
//   - Pods that tolerate all taints and have not started yet stay on the node.
//
// # RBAC
//
// In the whole cluster:
//
//	nodes                                       get            all but Evict and DetachVolumes
//	nodes                                       patch          for the taints and the cordon
//	nodes                                       delete         only Delete
//	pods                                        list           DeletePods, Left, Evict, VolumesInUse
//	pods                                        get, delete    only DeletePods
//	pods/status                                 patch          only DeletePods
//	pods/eviction                               create         only Evict
//	volumeattachments (storage.k8s.io)          list           Left, DetachVolumes
//	volumeattachments (storage.k8s.io)          delete         only DetachVolumes
//	persistentvolumeclaims, persistentvolumes   get            only with a Storage
//
// Use neither the client of the elector nor client-go's default rate limit of 5 requests per
// second, because a release sends two requests for each pod.
//
// # Tests
//
// Fake clientsets work; see the example. They do not check preconditions, so only a real API server
// shows the effects of concurrent changes. Set the UIDs of nodes and pods.
package cluster
