package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// With --after, a bellwether is a child of a process that has cleared the host before and clears it again if
// the child was killed. That process replaces the parent of package supervisor, which would release the
// Lease before the host is clear.

// host is how the child reports to its parent.
type host struct{ clear *os.File }

// cleared reports that nothing needs clearing when this process has ended.
func (h *host) cleared() {
	if h != nil {
		_, _ = h.clear.WriteString("cleared\n")
	}
}

// hostVariable has the number of the parent.
const hostVariable = "BELLWETHER_AFTER"

// clearedHost returns in the child. The parent clears the host first and again when the child has ended.
func clearedHost(o options) *host {
	if os.Getenv(hostVariable) == strconv.Itoa(os.Getppid()) {
		unix.CloseOnExec(process.SupervisedFile)
		return &host{os.NewFile(process.SupervisedFile, "host")}
	}
	os.Exit(attendHost(o))
	return nil // not reached
}

func attendHost(o options) (code int) {
	runtime.LockOSThread() // the kernel kills the command when the thread that has started it ends
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		say("prctl: %v", err)
		return exitUnavailable
	}
	if err := o.lockHost(); err != nil {
		say("%v", err)
		if errors.As(err, new(usageError)) {
			return exitUsage
		}
		return exitUnavailable
	}
	if err := o.clearHost(); err != nil {
		say("--after: %v: not contending, because the program may have left something on this host", err)
		return leaderelection.ExitCodeNotLeader
	}
	read, write, err := os.Pipe()
	if err != nil {
		say("%v", err)
		return exitUnavailable
	}
	return process.Supervise(process.Supervision{File: write, Variable: hostVariable, Ended: func(int) {
		signal.Ignore(unix.SIGPIPE) // the end of the reader of standard error ends nothing here
		endDescendants()
		_ = write.Close()
		if cleared, _ := io.ReadAll(read); len(cleared) > 0 {
			return
		}
		if err := o.clearHost(); err != nil {
			say("--after: %v: what the program has left on this host is still there", err)
		}
	}})
}

// lockHost waits until this process is the only one of its Lease on this host (by network namespace),
// because it would clear what another one's program needs.
func (o *options) lockHost() error {
	config, err := o.target()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("run %s %s/%s", config.Host, o.election.Namespace, o.election.Name)
	for waits := false; ; <-time.After(200 * time.Millisecond) {
		_, err := process.Lock(name) // until this process ends
		if !errors.Is(err, process.ErrLocked) {
			return err
		}
		if !waits {
			say("--after: waiting for the end of another bellwether of Lease %s/%s on this host",
				o.election.Namespace, o.election.Name)
			waits = true
		}
	}
}

// clearHost runs the command of --after.
func (o *options) clearHost() error {
	ctx, cancel := o.clearing(context.Background())
	defer cancel()
	c := exec.CommandContext(ctx, shell, "-c", o.after)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	err := c.Run()
	endDescendants()
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// endDescendants kills what the program or the command has left, and waits until all have ended, however long.
func endDescendants() {
	for !process.EndDescendants(process.SinceBoot() + time.Minute) {
		say("processes %v cannot be killed: waiting for their end", own())
	}
}

// clearing returns the context of the command, which may take as long as the Lease lasts.
func (o *options) clearing(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, o.election.LeaseDuration,
		fmt.Errorf("the command has not ended within %v", o.election.LeaseDuration))
}

// say prints a line without waiting, because the reader of standard error may have stopped or ended.
func say(format string, values ...any) {
	process.RunWithTimeout(func() { fmt.Fprintf(os.Stderr, "bellwether run: "+format+"\n", values...) })
}
