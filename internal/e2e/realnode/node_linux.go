package realnode

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// card is the name that the network card has in a node.
	card = "eth0"
	// controlSocket is where the first process of a node takes requests.
	controlSocket = "control"
	authorityFile = "ca.crt"
	// requestTimeout is how long a node may take to end a daemon.
	requestTimeout = 30 * time.Second
)

// Node is one real node. Safe for concurrent use.
type Node struct {
	// Name is that of the Node object.
	Name string
	// Dir has the node's disk and the logs of its daemons: containerd.log, kubelet.log,
	// kube-proxy.log, and boot.log of its first process.
	Dir string

	boot boot

	mu      sync.Mutex // held while the power changes
	process *exec.Cmd  // the first process; nil: off
}

func (n *Node) cable() string { return "to-" + n.Name }

// On switches the power on, and returns when the first process runs. The disk is as it was. It does
// not wait until the node is Ready.
func (n *Node) On() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return nil
	}
	if err := n.on(); err != nil {
		return fmt.Errorf("realnode: switch %s on: %w", n.Name, err)
	}
	return nil
}

func (n *Node) on() error {
	if err := n.boot.Cgroups.create(); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(n.Dir, controlSocket)) // of the last boot
	log, err := os.OpenFile(filepath.Join(n.Dir, "boot.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	how, err := n.boot.encode()
	if err != nil {
		return err
	}
	first := exec.Command("/proc/self/exe")
	first.Env = append(os.Environ(), how)
	first.Stdout, first.Stderr = log, log
	first.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, // nothing that is sent to the test's process group reaches a machine
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
	}
	if err := first.Start(); err != nil {
		return err
	}
	n.process = first
	_ = ip("link", "delete", n.cable()) // the kernel may not have removed it yet
	for _, arguments := range [][]string{
		{
			"link", "add", n.cable(), "type", "veth", "peer", "name", card, "netns", fmt.Sprint(first.Process.Pid),
		},
		{"link", "set", n.cable(), "master", bridge, "up"},
	} {
		if err := ip(arguments...); err != nil {
			return errors.Join(err, n.off())
		}
	}
	return nil
}

// Off takes the power away, and returns when no process of the node is left.
func (n *Node) Off() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	if err := n.off(); err != nil {
		return fmt.Errorf("realnode: switch %s off: %w", n.Name, err)
	}
	return nil
}

func (n *Node) off() error {
	// The kernel ends all processes of the namespace before the first one is gone.
	if err := n.process.Process.Kill(); err != nil {
		return err
	}
	err := n.boot.Cgroups.freeze(false) // what is frozen does not die
	_ = n.process.Wait()
	n.process = nil
	return errors.Join(err, n.boot.Cgroups.remove())
}

// Freeze stops the machine: everything on it stands still, and its connections stay open. It returns
// when that is so.
func (n *Node) Freeze() error { return n.freeze(true) }

// Thaw lets a frozen machine go on.
func (n *Node) Thaw() error { return n.freeze(false) }

func (n *Node) freeze(frozen bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.boot.Cgroups.freeze(frozen); err != nil {
		return fmt.Errorf("realnode: freeze %s (%t): %w", n.Name, frozen, err)
	}
	return nil
}

// Cut pulls the network cable.
func (n *Node) Cut() error { return ip("link", "set", n.cable(), "down") }

// Heal puts the network cable back.
func (n *Node) Heal() error { return ip("link", "set", n.cable(), "up") }

// StopKubelet kills the kubelet, and returns when it is gone. The containers run on.
func (n *Node) StopKubelet(ctx context.Context) error { return n.ask(ctx, kubelet+" off") }

// StartKubelet starts the kubelet again.
func (n *Node) StartKubelet(ctx context.Context) error { return n.ask(ctx, kubelet+" on") }

// ask sends a request to the first process, and waits until it is done.
func (n *Node) ask(ctx context.Context, what string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.Dir, controlSocket))
	if err != nil {
		return fmt.Errorf("realnode: %s: %s: %w", n.Name, what, err)
	}
	defer connection.Close()
	deadline, _ := ctx.Deadline()
	_ = connection.SetDeadline(deadline)
	if _, err := fmt.Fprintln(connection, what); err != nil {
		return fmt.Errorf("realnode: %s: %s: %w", n.Name, what, err)
	}
	if _, err := bufio.NewReader(connection).ReadString('\n'); err != nil {
		return fmt.Errorf("realnode: %s: %s: %w", n.Name, what, err)
	}
	return nil
}

// Signal sends a signal to all processes of a container; "containerd://" in front of its ID does not
// matter. [os.ErrProcessDone] if it has none.
func Signal(container string, signal syscall.Signal) error {
	pids, err := Processes(container)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("realnode: container %s: %w", container, os.ErrProcessDone)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("realnode: container %s: %w", container, err)
		}
	}
	return nil
}

// Starve lowers the memory limit of a container until the kernel has killed a process of it.
func Starve(ctx context.Context, container string) error {
	pids, err := Processes(container)
	if err != nil || len(pids) == 0 {
		return fmt.Errorf("realnode: container %s: no process: %w", container, err)
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pids[0]))
	if err != nil {
		return err
	}
	_, path, _ := strings.Cut(string(content), ":memory:")
	path, _, _ = strings.Cut(path, "\n")
	group := filepath.Join("/sys/fs/cgroup/memory", path)
	for before := len(pids); len(pids) >= before; {
		usage, err := os.ReadFile(filepath.Join(group, "memory.usage_in_bytes"))
		if err != nil {
			return err
		}
		// Below the usage the kernel frees caches, or refuses.
		bytes, _ := strconv.Atoi(strings.TrimSpace(string(usage)))
		_ = os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte(strconv.Itoa(bytes-1<<18)), 0o600)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if pids, err = Processes(container); err != nil {
			return err
		}
	}
	return nil
}

// Processes are those of a container that live, on whichever node.
func Processes(container string) (pids []int, err error) {
	container = strings.TrimPrefix(container, "containerd://")
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), container) {
			continue // another one, or it has ended meanwhile
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/cgroup", &pid); err == nil && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// zombie reports whether a process has ended, and its parent has not heard of it yet.
func zombie(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, state, ok := strings.Cut(string(content), ") ") // the name before may contain anything
	return !ok || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// DialContext dials from the node, as its kubelet and its Pods of the host's network would.
func (n *Node) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	process := n.process
	n.mu.Unlock()
	if process == nil {
		return nil, fmt.Errorf("realnode: dial from %s: it is off", n.Name)
	}
	type answer struct {
		connection net.Conn
		err        error
	}
	answers := make(chan answer, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		connection, err := net.Conn(nil), setNetwork(process.Process.Pid)
		if err == nil {
			connection, err = new(net.Dialer).DialContext(ctx, network, address)
		}
		answers <- answer{connection, err}
	}()
	a := <-answers
	return a.connection, a.err
}

// setNetwork moves this thread into the network namespace of a process.
func setNetwork(pid int) error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
}
