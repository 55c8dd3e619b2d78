// Package lease is what every holder of a coordination.k8s.io/v1 Lease in this module shares: the record and its
// markers, the clockwork of a term, what a candidate may conclude from what it saw, and the process side of holding.
//
// # Safety argument
//
// With D the duration written in the record, M the margin, and s the local time just before the request was sent
// that wrote the standing version:
//
//   - The holder acts only until s + D - M.
//   - A candidate takes over only by compare-and-swap on a version that it has seen unchanged for D since it
//     received it at o, or on a version that carries the marker of a release.
//
// The version was received after it was committed, and committed after it was sent, so a take-over by expiry happens
// at o + D >= s + D, when the holder has been silent for M. No clock of another machine takes part: latency, lost
// responses and clock offsets only lengthen the wait. M covers the difference in *rate* of the two clocks.
//
// A version is "unchanged" if its spec is. Every renewal has a renew time of its own, so a later version of
// the same object with an equal spec shows that metadata was written and nothing was renewed in between.
// It does not restart the wait, or a frequent writer of annotations would keep a dead holder's lease for
// ever; it becomes the version to swap. A lower version restarts the wait, as after a restore of etcd.
//
// # Layout
//
// Pure values that decide, each tested in tables: [Timing], [Record], [WriteLog] (what a term of ours wrote),
// [Observation] (what a candidate saw). The shell that acts: [Candidate] and [Holder] over a [Store], and the [Guard] of what is
// sent under a [Term].
package lease
