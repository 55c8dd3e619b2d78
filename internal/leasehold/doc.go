// Package leasehold holds a coordination.k8s.io/v1 Lease. It acts on the decisions of package lease,
// which has the safety argument.
//
// A [Candidate] takes a lease over and a [Holder] keeps it, both over a [Store]. A holder's [Term]
// ends at its deadline. The [Guard] passes requests only in a term; a release waits for them in
// drain.go.
//
// A [Witness] releases leases for containers that have ended (podwatch.go), [ReleaseOrphan] for a
// process that has died (deadprocess.go).
package leasehold
