// Package nodestate is what one process has itself seen of nodes: for how long each has failed, for
// how long its Lease has been silent, whether it was ever Ready, and whether it has lived since a
// moment. It makes the facts that package policy decides about.
//
//	nodes, err := sighting.New(sighting.Config{})
//	...
//	// from informers of Nodes and of the Leases in kube-node-lease
//	nodes.Node(node, time.Now())
//	nodes.Lease(lease, time.Now())
//	nodes.Synced() // both have synced
//	...
//	facts := nodes.Facts(time.Now())
//
// All that is fed is values with the time at which they were received, by the clock of the one
// process. A [Nodes] has no goroutine and asks nobody. It needs what a watch of Nodes and of Leases
// in the namespace kube-node-lease needs: list and watch.
//
// # What is seen
//
// Times that others have written are never compared with the clock, only with what the same object
// said before. A Lease is renewed when its stamp is another than before, whichever; one that has
// always been the same was never seen to be renewed ([policy.NotSeen]), however new the stamp may
// look. A node fails from when that was first seen, not from when it says: a process that has just
// begun waits for longer than it would have to. Whoever is Ready in between, is seen to have been
// by the time of the last transition, or has another boot ID, begins anew.
//
// A version that is older than what was seen already, by its resourceVersion, is ignored: a watch
// may be late, or be set back to what another API server knew earlier.
//
// A node is its UID. Another Node of the same name begins without a past, and what the Lease of
// that name did before does not count for it.
//
// # Ever Ready
//
// A node that is first seen after [Nodes.Synced] is joining until it is Ready. Of one that was
// there before, and is not Ready, that is not known, unless the controller has left a mark at it
// that it leaves only at nodes that are ([Config].FenceReadyCondition).
//
// # Not guaranteed
//
//   - What happened while nobody watched is not seen. A new Node that was Ready, and is not any
//     more, when the watch comes back, is taken to be joining; a new Lease to be renewed when it is
//     first seen.
//   - Versions that do not compare, such as those of fake clientsets, are all taken to be new.
package nodestate
