package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Lock takes name for this process in its network namespace, which the containers of a Pod share.
// It is held until release is called or the process ends, because the kernel frees the name of an
// abstract socket when the last thread is gone. The error is [ErrLocked] if the name is held
// already.
func Lock(name string) (release func(), err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create socket: %w", err)
	}
	sum := sha256.Sum256([]byte(name)) // names may be longer than 107 bytes
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@bellwether/" + hex.EncodeToString(sum[:])}); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			err = fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return nil, fmt.Errorf("bind abstract socket: %w", err)
	}
	return func() { _ = unix.Close(fd) }, nil
}
