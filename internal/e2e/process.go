package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

const (
	stopPoll    = time.Millisecond
	stopTimeout = 10 * time.Second
)

// Command describes a process to start.
type Command struct {
	// Name names the process in errors, and its log file: <Name>.log. Required and unique within a
	// group.
	Name string
	// Path is the program, Args its arguments (without the program's name).
	Path string
	Args []string
	// Env holds additions to the environment, as "KEY=value".
	Env []string
	// OnLine is called with every line of standard output as it comes, without its newline, from
	// one goroutine per run of the process. It must not block: the process would block on its
	// output, and Close on both. Nil is allowed: output goes to the log file in any case.
	OnLine func(line string)
	// Supervised lets the program have a supervisor: the process is that, and the program its child,
	// which is what Pause, Resume and Kill are about. Otherwise there is one process, and the signals
	// of a test are for the program.
	Supervised bool
}

// Exit says how and when a run of a process ended.
type Exit struct {
	// Code is the exit code, -1 if a signal ended the process.
	Code int
	// Signal is the signal that ended the process, 0 if it ended by itself.
	Signal syscall.Signal
	// At is the time at which the harness saw the end: with a monotonic reading, microseconds to a
	// few milliseconds after it happened.
	At time.Time
}

// String is "exit code 1" or "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Process is a program that a [Group] runs: one run at a time, more with Restart. Safe for
// concurrent use.
type Process struct {
	group   *Group
	command Command
	log     string

	mu  sync.Mutex // held while starting, so that there is never more than one run
	run *run
}

// run is one life of a process. exit is written before done is closed and read only after.
type run struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit Exit
}

// start begins a run. The caller holds p.mu or has not shared p yet.
func (p *Process) start() error {
	p.group.mu.Lock()
	defer p.group.mu.Unlock()
	if p.group.closed {
		return fmt.Errorf("e2e: start %s: %w", p.command.Name, errClosed)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("e2e: start %s: %w", p.command.Name, err)
	}
	cmd := exec.Command(p.command.Path, p.command.Args...)
	cmd.Env = append(os.Environ(), "BELLWETHER_SUPERVISOR="+map[bool]string{false: "off"}[p.command.Supervised])
	cmd.Env = append(cmd.Env, p.command.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: p.group.leader.Process.Pid}

	// Files, not writers, go to cmd: its Wait then returns with the end of the process, not of its
	// output.
	var output *lines
	if p.command.OnLine != nil {
		var writer *os.File
		if output, writer, err = newLines(log, p.command.OnLine); err != nil {
			log.Close()
			return fmt.Errorf("e2e: start %s: %w", p.command.Name, err)
		}
		defer writer.Close()
		cmd.Stdout = writer
	}
	if err := cmd.Start(); err != nil {
		output.close()
		log.Close()
		return fmt.Errorf("e2e: start %s: %w", p.command.Name, err)
	}
	life := &run{cmd: cmd, done: make(chan struct{})}
	if p.run == nil {
		p.group.processes = append(p.group.processes, p)
	}
	p.run = life
	output.start()
	go func() {
		defer close(life.done)
		_ = cmd.Wait() // what it says is in ProcessState
		life.exit = exitOf(cmd.ProcessState, time.Now())
		output.finish()
		log.Close()
	}()
	return nil
}

func exitOf(state *os.ProcessState, at time.Time) Exit {
	exit := Exit{Code: state.ExitCode(), At: at}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}

func (p *Process) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *Process) signal(life *run, signal syscall.Signal) error {
	if err := life.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("e2e: send %s to %s: %w", signal, p.command.Name, err)
	}
	return nil
}

// program is the process of the program, which may be a child of this one.
func (p *Process) program(life *run) (*os.Process, error) {
	if !p.command.Supervised || runtime.GOOS != "linux" {
		return life.cmd.Process, nil
	}
	children := process.Children(life.cmd.Process.Pid)
	if len(children) == 0 {
		return nil, fmt.Errorf("e2e: %s has no child: %w", p.command.Name, os.ErrProcessDone)
	}
	return os.FindProcess(children[0])
}

// Program returns the process of the program: that of the latest run, or its child. To find it takes milliseconds.
func (p *Process) Program() (*os.Process, error) { return p.program(p.current()) }

// Signal sends the program a signal.
func (p *Process) Signal(signal syscall.Signal) error {
	program, err := p.Program()
	if err != nil {
		return err
	}
	if err := program.Signal(signal); err != nil {
		return fmt.Errorf("e2e: send %s to %s: %w", signal, p.command.Name, err)
	}
	return nil
}

// Pause stops the process (SIGSTOP) until Resume: to others it looks like a machine that hangs. Its
// connections stay open, and its children run on. On Linux it returns when every thread has
// stopped: with the signal only sent, a busy machine lets some run on for milliseconds, enough for
// another write. [os.ErrProcessDone] if the process has ended.
func (p *Process) Pause() error {
	life := p.current()
	program, err := p.program(life)
	if err != nil {
		return err
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopTimeout); !subprocess.Stopped(program.Pid); {
		select {
		case <-life.done:
			return fmt.Errorf("e2e: pause %s: %w", p.command.Name, os.ErrProcessDone)
		case <-time.After(stopPoll):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("e2e: pause %s: still runs after %s: was it resumed meanwhile?", p.command.Name,
				stopTimeout)
		}
	}
	return nil
}

// Resume continues a paused process (SIGCONT). [os.ErrProcessDone] if it has ended.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end (SIGTERM) and does not wait. A paused process acts on it when
// resumed. [os.ErrProcessDone] if it has ended.
func (p *Process) Terminate() error { return p.signal(p.current(), syscall.SIGTERM) }

// Kill ends the process (SIGKILL), paused or not, and returns when it is gone. No error if it was
// gone before.
func (p *Process) Kill() error {
	life := p.current()
	for killed := false; ; {
		err := p.Signal(syscall.SIGKILL)
		switch gone := errors.Is(err, os.ErrProcessDone); {
		case gone && !killed: // or a supervisor has not started its child yet
			err = p.signal(life, syscall.SIGKILL)
		case err == nil: // or the runtime has just tried to start a process, which ends at once
			killed = true
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-life.done:
			return nil
		case <-time.After(stopPoll):
		}
	}
}

// Restart starts the process again with the same command, after killing it if it still runs. Its
// log file is appended to.
func (p *Process) Restart() error {
	if err := p.Kill(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.run.done:
		return p.start()
	default: // another Restart was faster
		return nil
	}
}

// Wait returns how the latest run of the process ended, once it has ended and OnLine has had its
// last line. The error is that of ctx.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	life := p.current()
	select {
	case <-life.done:
		return life.exit, nil
	case <-ctx.Done():
		return Exit{}, fmt.Errorf("e2e: wait for the end of %s: %w", p.command.Name, ctx.Err())
	}
}

// Done is closed when the latest run of the process has ended.
func (p *Process) Done() <-chan struct{} { return p.current().done }

// Pid is the process ID of the latest run.
func (p *Process) Pid() int { return p.current().cmd.Process.Pid }

// Log is the path of the file that holds standard output and standard error of all runs. With
// OnLine, lines of the two may change places.
func (p *Process) Log() string { return p.log }
