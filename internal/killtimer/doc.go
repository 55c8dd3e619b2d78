// Package killtimer has the kernel kill this process at a deadline, whatever the process is doing then.
//
// A time.Timer needs a thread of the process to run. A [Timer] is a POSIX timer whose SIGKILL no thread has to take: it
// also ends a process that spins in all its threads, that waits for the garbage collector, or that has been stopped by
// SIGSTOP. It survives the thread that created it, counts while the machine is suspended (CLOCK_BOOTTIME; it then
// fires on resume, before work goes on), and needs no memory when it fires: the signal is allocated by [New].
//
// # Not covered
//
//   - PID 1 of a pid namespace, the normal container: the kernel spares it its own SIGKILL, and everything would look
//     as if it worked. [New] refuses with [ErrPID1], which names the ways out.
//   - A process that replaces itself with execve (syscall.Exec): its timers are deleted, the new program runs without.
//   - Children: fork does not inherit timers, and what ends at the deadline is this process alone. A child that acts for
//     the leader needs an end of its own, such as SysProcAttr.Pdeathsig or a pipe whose end it watches.
//   - A system call that cannot be interrupted, such as I/O on a disk that hangs, ends before its thread does. Nothing
//     follows it, and requests that have been sent arrive whenever they arrive.
//   - A virtual machine that its hypervisor pauses: the clock stands still with it.
//   - Systems other than Linux, and sandboxes that forbid the calls: New returns an error that is errors.ErrUnsupported.
//
// Nothing here degrades silently: New has tried every call that Set makes.
package killtimer
