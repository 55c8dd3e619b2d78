// Package sim runs the real code of all replicas of a program on an API server in memory (package
// apisim), in virtual time, under faults. Requests and answers are lost. Watches lag and go back in
// time. Processes are stopped, suspended, killed and restarted. Clocks are off, run at other rates
// and are stepped. It judges whether two processes ever did at once what only one may do.
//
// A [Scenario] is the program. A schedule of faults follows from a seed: [Run] runs one, [Explore]
// many. The seed does not determine which of two goroutines goes first. So the report of a failed
// schedule has the trace of its requests, and [Replay] makes the server keep their order.
//
// # The program
//
// The processes of a program share only the server. Each gets a [Process] with a name, a clock, a
// connection and a referee. It has to wait by that clock. It must not hold a lock while it reads
// the clock or sends a request: it may be stopped there for a minute, and in a bubble of
// testing/synctest a goroutine that waits for a lock stops the time.
//
// # The referee
//
// A process reports the begin and end of its work ([Process.Begin], [Process.End]). It also reports
// an act that only the worker may do, after it has asked whether it is the worker ([Process.Act]).
// Two at once are a violation, unless one of them cannot act: it is dead, or stopped, or was woken
// in this very instant. So the code between a look at the clock and the next statement is not
// judged; only a fence on the server covers a stop there. If this does not show which process is to
// blame, the scenario has a [Rule] of its own. A rule may excuse an overlap (it is counted), and
// condemn an act without an overlap.
//
// A scenario with a Bound is also judged for liveness. While the server and one process have no
// fault, a process has to work within that time, whatever is written to the metadata of its
// objects.
package sim
