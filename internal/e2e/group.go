package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// leaderScript is the first process of a group. It ignores signals of a terminal, says that it does,
// and blocks on a pipe. Only the harness holds the other end. However the harness ends (return, panic,
// Ctrl-C, SIGKILL), the kernel closes that end, read sees the end of the file, and the shell kills its
// whole group. It sends SIGKILL, because a stopped member reacts to no other signal.
const leaderScript = `trap '' INT TERM HUP QUIT; echo; read -r _; kill -9 0`

var errClosed = errors.New("e2e: group is closed")

// Group is a set of processes that do not outlive the process that started them, however that one
// ends. Safe for concurrent use.
type Group struct {
	dir      string
	leader   *exec.Cmd
	lifeline *os.File // closing it ends the group
	close    sync.Once

	mu        sync.Mutex
	closed    bool // nothing may start any more: it could miss the kill
	processes []*Process
}

// NewGroup returns an empty group whose processes log to files in dir. From now on signals have their usual
// effect on all processes that this one starts, although it may ignore some itself, as under nohup.
func NewGroup(dir string) (*Group, error) {
	subprocess.DefaultSignals()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("e2e: start group: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("e2e: start group: %w", err)
	}
	defer reader.Close()
	leader := exec.Command("/bin/sh", "-c", leaderScript)
	leader.Stdin = reader
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ignores, err := leader.StdoutPipe()
	if err == nil {
		err = leader.Start()
	}
	if err != nil {
		writer.Close()
		return nil, fmt.Errorf("e2e: start group: %w", err)
	}
	// When the harness ends and a member is stopped, the kernel sends the group SIGHUP, which would end
	// a leader that does not ignore it yet, and leave a member that does.
	_, err = ignores.Read(make([]byte, 1))
	ignores.Close()
	if err != nil {
		writer.Close()
		_ = leader.Wait()
		return nil, fmt.Errorf("e2e: start group: its leader has ended: %w", err)
	}
	return &Group{dir: dir, leader: leader, lifeline: writer}, nil
}

// Start starts a process in the group.
func (g *Group) Start(command Command) (*Process, error) {
	process := &Process{group: g, command: command, log: filepath.Join(g.dir, command.Name+".log")}
	if err := process.start(); err != nil {
		return nil, err
	}
	return process, nil
}

// Close kills every process of the group, also those that its processes have started, and returns
// when its own processes are gone and their last lines delivered.
func (g *Group) Close() error {
	g.close.Do(func() {
		g.mu.Lock()
		g.closed = true
		processes := g.processes
		g.mu.Unlock()
		g.lifeline.Close()
		_ = g.leader.Wait() // it kills itself too: always an error
		for _, process := range processes {
			// Already dead, unless the leader was killed before it could kill its group.
			_ = process.Kill()
		}
	})
	return nil
}
