// Package sim runs the real code of all replicas of a program on an API server in memory (package apisim), in virtual time, while
// things go wrong: requests and answers are lost, watches lag and go back in time, processes are stopped, suspended, killed
// and started again, clocks are off, run at other rates and are stepped. It judges whether two of them ever did what only one may.
//
// A [Scenario] is the program, and a schedule of faults follows from a seed: [Run] runs one, [Explore] many. What the
// seed does not determine is which of two goroutines goes first, so a schedule that fails is reported with the trace of
// its requests, and [Replay] makes the server keep their order.
//
// # The program
//
// The processes of a program share nothing but the server. Each gets a [Process] with a name, a clock, a connection, and
// a referee to tell what it is doing. It has to wait by that clock, and must not hold a lock while it reads it or sends a
// request: there it may be stopped for a minute, and in a bubble of testing/synctest a goroutine that waits for a lock
// stops the time.
//
// # The referee
//
// A process that works on something says so ([Process.Begin], [Process.End]); one that does something that only the worker may,
// because it has just asked whether it is, says that too ([Process.Act]). Two at once are a violation, unless one of
// them cannot do anything: it is dead, or stopped, or was woken in this very instant. A scenario in which that does not tell who is to
// blame has a [Rule] of its own, which may excuse an overlap (it is counted) and condemn a deed that meets nobody. What a process does between its look
// at the clock and the next statement is therefore not judged; only a fence on the server could keep it from being stopped there.
//
// A scenario with a Bound is judged for liveness, too: while the server and one process have no fault, a
// process has to work within that time, whatever is written to the metadata of its objects.
package sim
