//go:build unix

package kdump

import (
	"net/netip"
	"syscall"
)

// receive takes the next pending message, without waiting.
func receive(fd uintptr, message []byte) (int, netip.Addr, error) {
	n, from, err := syscall.Recvfrom(int(fd), message, 0)
	if err != nil {
		return 0, netip.Addr{}, err
	}
	switch from := from.(type) {
	case *syscall.SockaddrInet4:
		return n, netip.AddrFrom4(from.Addr), nil
	case *syscall.SockaddrInet6:
		return n, netip.AddrFrom16(from.Addr).Unmap(), nil
	}
	return n, netip.Addr{}, nil
}
