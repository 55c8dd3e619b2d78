// Package nodestate tracks what one process has seen of nodes: how long each node has failed, how
// long its Lease has not been renewed, whether it was ever Ready, and whether it has been alive
// since a given time. Package policy decides on these facts.
//
//	nodes, err := nodestate.New(api.NodeSelector{})
//	...
//	// from informers of Nodes and of the Leases in kube-node-lease
//	nodes.Node(node, time.Now())
//	nodes.Lease(lease, time.Now())
//	nodes.Synced() // both have synced
//	...
//	facts := nodes.Facts(time.Now())
//
// The input is values, with the time of their receipt by the clock of this process. [Nodes] has no
// goroutine and sends no requests. The informers need list and watch for Nodes, and for Leases in
// the namespace kube-node-lease.
//
// # What is seen
//
// Timestamps of others are never compared with the clock, only with earlier timestamps of the same
// object. A Lease is renewed when its timestamp changes, so one whose timestamp has never changed
// was never seen renewed ([policy.NotSeen]), however recent the timestamp looks. A node fails from
// the time at which that was first seen, not from the time that it reports, so that a new process
// waits longer than necessary. The time starts again if the node was Ready in between, has a later
// transition time, or has another boot ID.
//
// A version that is older than one already seen, by its resourceVersion, is ignored, because a
// watch may be late, or may be reset to an earlier state by another API server.
//
// A node is identified by its UID. A new Node of the same name starts without history, and earlier
// renewals of the Lease of that name do not count for it.
//
// # Ever Ready
//
// A node that is first seen after [Nodes.Synced] is joining until it is Ready. For a node that
// existed before and is not Ready, it is unknown whether it was ever Ready, unless it has the
// condition [api.NodeSelector].FenceReadyCondition, which the controller sets only on Ready nodes.
//
// # Not guaranteed
//
//   - Changes without a watch are not seen. A new Node that was Ready for a time without a watch
//     counts as joining. A new Lease counts as renewed when it is first seen.
//   - Versions that cannot be compared, such as those of fake clientsets, all count as new.
package nodestate
