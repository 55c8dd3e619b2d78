package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/debian"
)

const (
	// Ports that are tried. The kernel gives no process that asks for any port one of them, unless it
	// was told to.
	firstPort, lastPort = 10_000, 32_000
	attempts            = 20
	startTimeout        = 20 * time.Second
	startPoll           = 5 * time.Millisecond
)

// onFreePort starts a server on a UDP port of 127.0.0.1 that is free, and returns when it has
// bound it. Somebody else may be faster: then it is tried with another.
func (l *Lab) onFreePort(name string, command func(port int) (e2e.Command, error)) (int, *e2e.Process, error) {
	for attempt := range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort)
		socket, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		socket.Close()
		c, err := command(port)
		if err != nil {
			return 0, nil, fmt.Errorf("lab: start %s: %w", name, err)
		}
		c.Name = name
		if attempt > 0 {
			c.Name = fmt.Sprintf("%s-%d", name, attempt)
		}
		if c.Path, err = debian.Find(c.Path); err != nil {
			return 0, nil, fmt.Errorf("lab: start %s: %w", name, err)
		}
		process, err := l.group.Start(c)
		if err != nil {
			return 0, nil, fmt.Errorf("lab: start %s: %w", name, err)
		}
		if err := bound(process, port); err == nil {
			return port, process, nil
		} else if attempt == attempts-1 {
			return 0, nil, fmt.Errorf("lab: start %s: %w; its log: %s", name, err, process.Log())
		}
	}
	return 0, nil, fmt.Errorf("lab: start %s: no free port", name)
}

// bound returns when the process has bound the port. Another process that was faster does not
// count.
func bound(process *e2e.Process, port int) error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if ok, err := binds(process.Pid(), port); ok || err != nil {
			return err
		}
		select {
		case <-process.Done():
			return fmt.Errorf("it has ended")
		case <-time.After(startPoll):
		}
	}
	_ = process.Kill()
	return fmt.Errorf("it does not listen on port %d", port)
}

// binds reports whether a process has a UDP port of 127.0.0.1.
func binds(pid, port int) (bool, error) {
	sockets, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return false, err
	}
	// 127.0.0.1 as the kernel writes it, on machines with the lowest byte first
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(sockets)) {
		if fields := strings.Fields(line); len(fields) > 9 && fields[1] == local && has(pid, fields[9]) {
			return true, nil
		}
	}
	return false, nil
}

// has reports whether a process has a socket open, by its inode.
func has(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir) // none: it has ended
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
