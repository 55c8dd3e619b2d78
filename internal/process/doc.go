// Package process is about the operating system process that the program runs in:
//
//   - [KillTimer]: the kernel kills this process at a deadline.
//   - [SinceBoot] and [Suspended]: a clock that keeps counting while the machine is suspended.
//   - Supervise: the program runs as a child of this process, which outlives it (Linux).
//   - [Children] and [CheckProc]: the children of this process, as /proc shows them (Linux).
//   - [ReexecIfPID1]: the program runs as a child if it was started as PID 1.
//   - [Lock]: one process of a Pod holds a name.
//   - [Exit] and [RunWithTimeout]: the last steps of a process, which must not hang.
//
// It depends on the operating system only.
package process
