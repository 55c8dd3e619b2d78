package fenceagents

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is an agent's file, and the environment that it gets.
type program struct {
	path        string
	environment []string
}

// ended is how a run has ended. With an error the outcome does not count.
type ended struct {
	outcome outcome
	err     error
}

// run runs the program and returns when it has ended and nothing that it has started is left. When
// ctx ends before that, everything is killed, and whatever the program has said is discarded.
func (p program) run(ctx context.Context, input []byte) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	done := make(chan ended, 1)
	// ends with the program: one that was killed and waits for a disk is waited for
	go func() { done <- p.live(ctx, input) }()
	select {
	case e := <-done:
		if ctx.Err() == nil {
			return e.outcome, e.err
		}
		done <- e // this process was stopped, and what was said may be as old as that
	case <-ctx.Done():
	}
	overdue := time.NewTimer(patience)
	defer overdue.Stop()
	killed := fmt.Errorf("killed: %w", context.Cause(ctx))
	select {
	case e := <-done:
		if errors.Is(e.err, ErrAlive) {
			killed = fmt.Errorf("%w; %w", killed, e.err)
		}
		return outcome{stderr: e.outcome.stderr}, killed
	case <-overdue.C:
		return outcome{}, fmt.Errorf("%w; %w", killed, ErrAlive)
	}
}

// live is a run of the program from its start until nothing of it is left.
func (p program) live(ctx context.Context, input []byte) ended {
	// The kernel kills the program when the thread that has started it ends, so this one must not.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	var stdout head
	var stderr tail
	out, err := newStream(&stdout)
	if err != nil {
		return ended{err: fmt.Errorf("not started: %w", err)}
	}
	complaints, err := newStream(&stderr)
	if err != nil {
		out.finish()
		return ended{err: fmt.Errorf("not started: %w", err)}
	}
	marker := markerKey + "=" + rand.Text()
	command := exec.Command(p.path)
	command.Env = append(p.environment[:len(p.environment):len(p.environment)], marker)
	command.Dir = "/"
	command.Stdout, command.Stderr = out.writer, complaints.writer
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		out.finish()
		complaints.finish()
		return ended{err: fmt.Errorf("not started: %w", err)}
	}
	members := family{leader: command.Process.Pid, marker: []byte(marker)}

	// Until the program is reaped its ID has no other owner: only before that may its group be
	// killed.
	dead, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-ctx.Done():
			members.killGroup()
		case <-dead:
		}
	}()
	// It does nothing before it has read to the end. Should this process have been stopped since it
	// was to start: not now any more. Then it must not see the end either, or it would act without
	// having been told what.
	if ctx.Err() != nil {
		members.killGroup()
	} else {
		_, _ = stdin.Write(input) // at once: there is room for all. It may have ended without reading
		_ = stdin.Close()
	}
	err = untilDead(members.leader)
	close(dead)
	<-watched
	var alive []int
	if err == nil {
		alive = members.end()
	}
	_ = command.Wait() // how the program has ended is in its state
	held := out.finish()
	held = complaints.finish() || held
	if command.ProcessState == nil {
		// who waits for all children of this process, or ignores SIGCHLD, takes the end of ours
		// away
		return ended{err: fmt.Errorf("%w, perhaps: somebody else in this process has waited for it: %w", ErrAlive, err)}
	}
	e := ended{
		outcome: outcome{
			code:      command.ProcessState.ExitCode(),
			stdout:    stdout.kept,
			truncated: stdout.dropped,
			stderr:    stderr,
		},
		err: err,
	}
	switch status, ok := command.ProcessState.Sys().(syscall.WaitStatus); {
	case len(alive) > 0:
		e.err = fmt.Errorf("%w: processes %v", ErrAlive, alive)
	case held:
		e.err = fmt.Errorf("%w: somebody still holds its output", ErrAlive)
	case ok && status.Signaled():
		e.err = fmt.Errorf("ended by a signal: %s", status.Signal())
	}
	return e
}

// untilDead waits for a child's end, and leaves it to be reaped.
func untilDead(pid int) error {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
