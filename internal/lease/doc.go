// Package lease decides for all holders of a coordination.k8s.io/v1 Lease in this module what a
// record means, how long a term lasts, and when a candidate may take over.
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
// A version is sent, then committed, then received, so a takeover by expiry happens at o + D >= s +
// D, when the holder has been silent for M. No clock of another machine is used, so latency, lost
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
// Values that decide: [Record] and its marks, [Timing] (deadline.go), [WriteLog] (what this process
// wrote), [Observation] (takeover.go: when a candidate may take over), [PodProcess] (podreport.go:
// whether its container has ended) and [Orphan] (deadprocess.go: when a supervisor may release a
// lease). Nothing here sends a request, reads a clock or starts a goroutine, because package
// leasehold does.
package lease
