// Package lease is shared by all holders of a coordination.k8s.io/v1 Lease in this module: the
// record and its marks, the timing of a term, the take-over by a candidate, and the HTTP guard.
//
// # Safety argument
//
// D is the duration in the record, M the margin, and s the local time just before the request was
// sent that wrote the present version:
//
//   - The holder acts only until s + D - M.
//   - A candidate takes over only by compare-and-swap on a version that it has seen unchanged for D
//     since it received it at o, or that has the mark of a release.
//
// A version is sent, then committed, then received. So a take-over by expiry happens at o + D >= s
// + D, when the holder has been silent for M. No clock of another machine is used: latency, lost
// responses and clock offsets only lengthen the wait. M covers the difference in *rate* of the two
// clocks.
//
// A version is "unchanged" if its spec is. Each renewal has its own renew time, so a later version
// of the same object with an equal spec contains no renewal. It does not restart the wait, because
// a frequent writer of annotations would otherwise keep a dead holder's lease forever; it becomes
// the version to swap. A lower version restarts the wait, as after a restore of etcd.
//
// # Layout
//
// Pure values that decide: [Timing] (deadline.go), [Record], [WriteLog] (what this process wrote)
// and [Observation] (takeover.go: when a candidate may take over). Code that acts: [Candidate] and
// [Holder] over a [Store], and the [Guard] of requests sent in a [Term]; a release waits for them
// in drain.go.
package lease
