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

// program is the file of an agent, with its environment.
type program struct {
	path        string
	environment []string
	patience    time.Duration // how long what was killed may take to be gone
}

// ended has the outcome of a run, which does not count if there is an error.
type ended struct {
	outcome outcome
	err     error
}

// order is the input of a program that was started before, and the context of what it is to do.
type order struct {
	ctx   context.Context //nolint:containedctx // that of the start may end later
	input []byte
}

// started is a program that waits for its input.
type started struct {
	program program
	orders  chan<- order
	done    chan ended
}

// start starts the program. If ctx ends before run is called, everything is killed.
func (p program) start(ctx context.Context) started {
	orders, done := make(chan order, 1), make(chan ended, 1)
	// ends with the program, even if a killed program waits for a disk
	go func() { done <- p.live(ctx, orders) }()
	return started{p, orders, done}
}

// run runs the program and returns when nothing of it is left. If ctx ends before, everything is
// killed, and the output is discarded.
func (p program) run(ctx context.Context, input []byte) (outcome, error) {
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	return p.start(ctx).run(ctx, input)
}

// run is that of the program. It is called once.
func (s started) run(ctx context.Context, input []byte) (outcome, error) {
	s.orders <- order{ctx, input}
	done := s.done
	select {
	case e := <-done:
		if ctx.Err() == nil {
			return e.outcome, e.err
		}
		done <- e // this process was stopped, and the output may be that old
	case <-ctx.Done():
	}
	overdue := time.NewTimer(s.program.patience)
	defer overdue.Stop()
	killed := fmt.Errorf("killed: %w", context.Cause(ctx))
	select {
	case e := <-done:
		if errors.Is(e.err, errAlive) {
			killed = fmt.Errorf("%w; %w", killed, e.err)
		}
		return outcome{stderr: e.outcome.stderr}, killed
	case <-overdue.C:
		return outcome{}, fmt.Errorf("%w; %w", killed, errAlive)
	}
}

// live runs the program until nothing of it is left. It gets its input when there is an order.
func (p program) live(ctx context.Context, orders <-chan order) ended {
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
		out.finish(p.patience)
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
		out.finish(p.patience)
		complaints.finish(p.patience)
		return ended{err: fmt.Errorf("not started: %w", err)}
	}
	members := family{leader: command.Process.Pid, marker: []byte(marker)}

	given := order{ctx: ctx}
	select {
	case given = <-orders:
	case <-ctx.Done():
	}
	// Until the program is reaped, its ID has no other owner. Its group may be killed only until
	// then.
	dead, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-given.ctx.Done():
			members.killGroup()
		case <-dead:
		}
	}()
	// The program does nothing before it has read to the end. If this process was stopped since the
	// start was decided, it must not act now. It must not see the end of the input either, or it
	// would act without its parameters.
	if given.ctx.Err() != nil {
		members.killGroup()
	} else {
		_, _ = stdin.Write(given.input) // at once, as the pipe has room; the program may have ended without reading
		_ = stdin.Close()
	}
	err = untilDead(members.leader)
	close(dead)
	<-watched
	var alive []int
	if err == nil {
		alive = members.end(p.patience)
	}
	_ = command.Wait() // its state has the result
	held := out.finish(p.patience)
	held = complaints.finish(p.patience) || held
	if command.ProcessState == nil {
		// code that waits for all children of this process, or ignores SIGCHLD, has reaped ours
		return ended{err: fmt.Errorf("%w, perhaps: other code in this process has waited for it: %w", errAlive, err)}
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
		e.err = fmt.Errorf("%w: processes %v", errAlive, alive)
	case held:
		e.err = fmt.Errorf("%w: another process still holds its output open", errAlive)
	case ok && status.Signaled():
		e.err = fmt.Errorf("ended by a signal: %s", status.Signal())
	}
	return e
}

// untilDead waits for the end of a child without reaping it.
func untilDead(pid int) error {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
