package e2e

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a TCP port of the loopback interface, reserved until closed, also while its server is
// down. A socket that is bound and never listens holds it. Connections go to the server, which
// binds beside it with SO_REUSEPORT. The kernel gives the port only to a process that asks for
// exactly this one.
type port struct {
	number int
	socket int
}

func reservePort() (*port, error) {
	// Not in one step everywhere: macOS has no SOCK_CLOEXEC. A child must not inherit the socket.
	syscall.ForkLock.RLock()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("e2e: reserve port: %w", os.NewSyscallError("socket", err))
	}
	err = errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)),
		os.NewSyscallError("bind", unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})),
	)
	name, nameErr := unix.Getsockname(socket)
	if err = errors.Join(err, os.NewSyscallError("getsockname", nameErr)); err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("e2e: reserve port: %w", err)
	}
	return &port{number: name.(*unix.SockaddrInet4).Port, socket: socket}, nil
}

// address is "127.0.0.1:<port>".
func (p *port) address() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

func (p *port) close() { _ = unix.Close(p.socket) }
