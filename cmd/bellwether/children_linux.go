package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// children are the processes that this process has started, and the orphans of those. All of them
// are waited for here, so that a process number is not used again while it may be signalled. Those of
// others in this process, such as plugins for credentials, stay in its process group: see own.
type children struct {
	starts chan func()

	mu     sync.Mutex
	exits  map[int]chan unix.WaitStatus // of those that were started
	killed bool                         // end has killed one
}

// adopt makes this process the parent of its children's orphans, and returns its children. They end
// with this process: the kernel kills a child when the thread that has started it ends. So one
// goroutine starts them all, and keeps its thread.
func adopt(ctx context.Context) (*children, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	c := &children{starts: make(chan func()), exits: map[int]chan unix.WaitStatus{}}
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

// child is one that was started. It leads a process group.
type child struct {
	pid  int
	exit <-chan unix.WaitStatus // receives once
}

// start starts a program with this environment, in a process group of its own.
func (c *children) start(path string, arguments, environment []string, files ...*os.File) (child, error) {
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
			Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},
		})
		if err != nil {
			return
		}
		exit := make(chan unix.WaitStatus, 1)
		started = child{p.Pid, exit}
		c.exits[p.Pid] = exit
		_ = p.Release() // reap waits for it
	}
	<-done
	return started, err
}

// own returns the children that were started here, and orphans. What is in the group of this process is of
// others, who wait for it.
func own() []int {
	return slices.DeleteFunc(process.Children(os.Getpid()), func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return err != nil || group == unix.Getpgrp()
	})
}

// reap waits for all that have ended. It reports whether none is left. The caller holds mu.
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
			}
		}
	}
	return none
}

// signal sends a signal to the process group of a child, unless the child has ended.
func (c *children) signal(of child, s unix.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, lives := c.exits[of.pid]; lives {
		_ = unix.Kill(-of.pid, s)
	}
}

// end kills all children and orphans, and waits until none is left. It returns false if that takes
// longer. killed reports whether there was one to kill.
func (c *children) end(within time.Duration) (ended, killed bool) {
	deadline, pause := time.Now().Add(within), time.Millisecond
	for ; ; pause = min(2*pause, 20*time.Millisecond) {
		c.mu.Lock()
		none := c.reap()
		if !none {
			for _, pid := range own() {
				_ = unix.Kill(pid, unix.SIGKILL)
				c.killed = true
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
