package sole

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Occupy makes this process the only one with a name in its network namespace, which the containers of a Pod share, until it calls release
// or ends, however it ends: the kernel gives an abstract socket's name to one, and takes it back when the last thread is gone. The error
// is [ErrOccupied] if another one has it.
func Occupy(name string) (release func(), err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	sum := sha256.Sum256([]byte(name)) // names may be longer than 107 bytes
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@bellwether/" + hex.EncodeToString(sum[:])}); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w: %w", ErrOccupied, err)
		}
		return nil, fmt.Errorf("bind abstract socket: %w", err)
	}
	return func() { _ = unix.Close(fd) }, nil
}
