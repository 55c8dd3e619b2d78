// Package sim runs the real code of all replicas of a program on an in-memory API server (package
// apisim), in virtual time, under faults, and judges whether two processes ever did at once what
// only one may do. Requests and answers are lost; watches lag and go back in time; processes are
// stopped, suspended, killed and restarted; clocks are off, run at other rates and are stepped.
//
// A [Scenario] is the program. A schedule of faults follows from a seed: [Run] runs one, [Explore]
// many. Because the seed does not determine which of two goroutines goes first, the report of a
// failed schedule has the trace of its requests, and [Replay] makes the server keep their order.
//
// # The program
//
// The processes of a program share only the server. Each gets a [Process] with a name, a clock, a
// connection and a referee, and has to wait by that clock. It must not hold a lock while it reads
// the clock or sends a request, because it may be stopped there for a minute, and in a bubble of
// testing/synctest a goroutine that waits for a lock stops time.
//
// # The referee
//
// A process reports when its work begins and ends ([Process.Begin], [Process.End]), and each act
// that only the worker may do, after it has checked that it is the worker ([Process.Act]). Two at
// once are a violation, unless one of them cannot act because it is dead, stopped or was woken in
// this very instant. So the code between a look at the clock and the next statement is not judged;
// only a fence on the server covers a stop there. If this does not show which process is to blame,
// the scenario has its own [Rule], which may excuse an overlap (it is counted) and condemn an act
// without an overlap.
//
// A scenario with a Bound is also judged for liveness: while the server and one process have no fault,
// a process has to work within that time, whatever is written to the metadata of its objects.
package sim
