package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// children are the processes that this process has started, and the orphans of those. All of them
// are waited for here, so that a process number is not used again while it may be signalled. Those
// of others in this process, such as plugins for credentials, stay in its process group (see own).
type children struct {
	starts chan func()

	mu       sync.Mutex
	exits    map[int]chan unix.WaitStatus // of those that were started
	commands map[int]bool                 // those of exits that are not of the program, but commands of flags
	killed   bool                         // end has killed one of the program
}

// adopt makes this process the parent of its children's orphans, and returns its children. They end
// with this process, because the kernel kills a child when the thread that has started it ends. So
// one goroutine starts them all and keeps its thread.
func adopt(ctx context.Context) (*children, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	c := &children{
		starts: make(chan func()), exits: map[int]chan unix.WaitStatus{}, commands: map[int]bool{},
	}
	go func() {
		runtime.LockOSThread()
		for start := range c.starts { // until this process ends
			start()
		}
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		defer signal.Stop(ended)
		for {
			select {
			case <-ended:
				c.mu.Lock()
				c.reap()
				c.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, nil
}

// child is one that was started. It leads a session and a process group.
type child struct {
	pid  int
	exit <-chan unix.WaitStatus // receives once
}

// program starts a program with this environment.
func (c *children) program(path string, arguments, environment []string) (child, error) {
	return c.start(path, arguments, environment, false, os.Stdin, os.Stdout, os.Stderr)
}

// command runs a command of a flag. If it has not ended with ctx, its process group is killed.
func (c *children) command(ctx context.Context, text string) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	command, err := c.start(shell, []string{"sh", "-c", text}, os.Environ(), true, null, os.Stderr, os.Stderr)
	if err != nil {
		return err
	}
	select {
	case status := <-command.exit:
		if code := codeOf(status); code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	case <-ctx.Done():
		c.signalGroup(command, unix.SIGKILL)
		<-command.exit
		return context.Cause(ctx)
	}
}

// start starts a process in its own session, where no terminal can stop it. In the background of our
// session, it would be stopped when it reads from the terminal or sets it.
func (c *children) start(path string, arguments, environment []string, command bool, files ...*os.File) (child, error) {
	var started child
	var err error
	done := make(chan struct{})
	c.starts <- func() {
		defer close(done)
		c.mu.Lock()
		defer c.mu.Unlock()
		var p *os.Process
		p, err = os.StartProcess(path, arguments, &os.ProcAttr{
			Env: environment, Files: files,
			Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
		})
		if err != nil {
			return
		}
		exit := make(chan unix.WaitStatus, 1)
		started = child{p.Pid, exit}
		c.exits[p.Pid] = exit
		if command {
			c.commands[p.Pid] = true
		}
		_ = p.Release() // reap waits for it
	}
	<-done
	return started, err
}

// own returns the children that were started here, and orphans. Others wait for those in the group of this
// process.
func own() []int {
	return slices.DeleteFunc(process.Children(os.Getpid()), func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return err != nil || group == unix.Getpgrp()
	})
}

// reap waits for all that have ended, and reports whether all have. The caller holds mu.
func (c *children) reap() (none bool) {
	none = true
	for again := true; again; {
		again = false // what has ended may have left orphans
		for _, pid := range own() {
			var status unix.WaitStatus
			ended, err := unix.Wait4(pid, &status, unix.WNOHANG, nil)
			if ended != pid || err != nil {
				none = false
				continue
			}
			again = true
			if exit, ok := c.exits[pid]; ok {
				exit <- status
				delete(c.exits, pid)
				delete(c.commands, pid)
			}
		}
	}
	return none
}

// signal sends a signal to a child, unless it has ended. As in a container, its own children do not
// get it, because they would get it twice from a program that passes signals on.
func (c *children) signal(to child, s unix.Signal) { c.send(to, to.pid, s) }

// signalGroup sends a signal to the process group of a child, unless the child has ended.
func (c *children) signalGroup(of child, s unix.Signal) { c.send(of, -of.pid, s) }

func (c *children) send(to child, pid int, s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, lives := c.exits[to.pid]; lives {
		_ = unix.Kill(pid, s)
	}
}

// orphans are what is left of a program after its first process.
type orphans struct {
	*children
	told map[int]bool // to end
}

// tell sends a signal to those that have not got it yet and to those that become orphans because of it. It
// reports whether all have ended.
//
// In a pipe, what reads from the others ends with them. It gets the signal after them, because otherwise
// the last that they write would kill them.
func (o orphans) tell(s unix.Signal) (none bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reap() {
		return true
	}
	input, _ := os.Readlink("/proc/self/fd/0") // the program's
	var first, readers []int
	for _, pid := range own() {
		if group, _ := unix.Getpgid(pid); o.commands[group] {
			continue
		}
		from, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
		if strings.HasPrefix(from, "pipe:") && from != input {
			readers = append(readers, pid)
		} else {
			first = append(first, pid)
		}
	}
	next := first
	if len(first) == 0 {
		next = readers
	}
	for _, pid := range next {
		if !o.told[pid] {
			o.told[pid] = true
			_ = unix.Kill(pid, s)
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	return len(next) == 0
}

// end kills all children and orphans and waits until they have ended; ended is false if that takes
// longer. killed reports whether one of the program was killed, in this call or before.
func (c *children) end(within time.Duration) (ended, killed bool) {
	deadline, pause := time.Now().Add(within), time.Millisecond
	c.mu.Lock()
	commands := maps.Clone(c.commands) // their own children outlive them by a moment
	c.mu.Unlock()
	for ; ; pause = min(2*pause, 20*time.Millisecond) {
		c.mu.Lock()
		none := c.reap()
		if !none {
			for _, pid := range own() {
				group, _ := unix.Getpgid(pid)
				c.killed = c.killed || !commands[group]
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		killed = c.killed
		c.mu.Unlock()
		if none || time.Now().After(deadline) {
			return none, killed
		}
		<-time.After(pause)
	}
}
