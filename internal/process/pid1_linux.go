package process

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitCannotStart is the shells' exit code for a program that cannot be executed.
const exitCannotStart = 126

// ReexecIfPID1 returns at once unless this process is PID 1. As PID 1 it runs the same program as a
// child, does what an init must, and exits as the child does.
//
// The kernel treats PID 1 unlike other processes: it drops signals without a handler and a SIGKILL
// of its own, and gives it the orphans of the namespace. The child needs no Pdeathsig: when PID 1
// ends, the kernel kills all other processes of its namespace.
func ReexecIfPID1() {
	if os.Getpid() == 1 {
		os.Exit(supervise())
	}
}

func supervise() (code int) {
	signals := make(chan os.Signal, 128)          // more than there are signals: os/signal drops what does not fit
	signal.Notify(signals, forwardedSignals()...) // before the child starts: earlier signals wait for it
	terminal := ownsTerminal()
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: terminal},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaderelection: PID 1 cannot start its program as a child:", err)
		return exitCannotStart
	}
	if terminal {
		moveToForeground(child)
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // fails if the child has ended; then this process ends too
		}
	}()
	return reap(child.Pid)
}

// forwardedSignals returns all signals except those about this process itself: its children,
// broken pipes, preempted goroutines and faults. A signal that was ignored at the start stays
// ignored, here and in the child.
func forwardedSignals() []os.Signal {
	var all []os.Signal
	for s := syscall.Signal(1); s <= 64; s++ {
		switch s {
		case unix.SIGCHLD, unix.SIGPIPE, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL:
		default:
			if !signal.Ignored(s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// reap waits for all children, so that orphans leave no zombies, until this child has ended.
// A stopped child has not ended.
func reap(child int) (code int) {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case err == unix.EINTR, err == nil && pid != child:
		case err != nil: // there is a child that was not waited for
			panic("process: wait for children: " + err.Error())
		case status.Signaled():
			return 128 + int(status.Signal()) // as shells do
		default:
			return status.ExitStatus()
		}
	}
}

// ownsTerminal reports whether this process leads the foreground group of a terminal, as with
// docker run --tty. The terminal's keys send signals to that group: a child in it would get each
// Ctrl-C twice, once forwarded, and the second one ends many programs at once.
func ownsTerminal() bool {
	group, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil && group == 1
}

// moveToForeground makes the child's group the foreground group. The child may have been stopped
// before for using the terminal from the background.
func moveToForeground(child *os.Process) {
	if unix.IoctlSetPointerInt(unix.Stdin, unix.TIOCSPGRP, child.Pid) == nil {
		_ = child.Signal(unix.SIGCONT)
	}
}
