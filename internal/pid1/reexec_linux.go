package pid1

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// cannotStart is the shells' exit code for a program that cannot be executed.
const cannotStart = 126

// Reexec returns at once, unless this process is PID 1. Then it runs the same program as a child and never returns: it
// ends with the child, and like it.
//
// The child needs no Pdeathsig: when PID 1 ends, for whatever reason, the kernel kills all others of its namespace.
func Reexec() {
	if os.Getpid() == 1 {
		os.Exit(supervise())
	}
}

func supervise() (code int) {
	signals := make(chan os.Signal, 128)   // more than there are: os/signal drops what does not fit
	signal.Notify(signals, forwarded()...) // before the child is there: what comes meanwhile waits for it
	terminal := ownsTerminal()
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: terminal},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "leaderelection: PID 1 cannot start its program as a child:", err)
		return cannotStart
	}
	if terminal {
		handOver(child)
	}
	go func() {
		for s := range signals {
			_ = child.Signal(s) // fails if the child has ended, and then so do we
		}
	}()
	return reap(child.Pid)
}

// forwarded is every signal but those about this very process: its children, its broken pipes, the preemption of its
// goroutines, its faults. A signal that was ignored at the start stays so, here and in the child.
func forwarded() []os.Signal {
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

// reap waits for orphans, or they would fill the process table as zombies, until the child has ended. A child that is
// stopped has not.
func reap(child int) (code int) {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case err == unix.EINTR, err == nil && pid != child:
		case err != nil: // the child has not been waited for, so there is one
			panic("pid1: waiting for children: " + err.Error())
		case status.Signaled():
			return 128 + int(status.Signal()) // as shells do
		default:
			return status.ExitStatus()
		}
	}
}

// ownsTerminal reports whether this process leads the foreground group of a terminal, as with docker run --tty. Its keys
// then send signals to that group: if the child stayed in it, each Ctrl-C would reach it twice, once forwarded, and the
// second one ends many programs at once.
func ownsTerminal() bool {
	group, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil && group == 1
}

// handOver makes the child's group the one in the foreground. The child may have been stopped meanwhile for touching the
// terminal from the background.
func handOver(child *os.Process) {
	if unix.IoctlSetPointerInt(unix.Stdin, unix.TIOCSPGRP, child.Pid) == nil {
		_ = child.Signal(unix.SIGCONT)
	}
}
