//go:build !unix

package kdump

import (
	"errors"
	"net/netip"
)

func receive(uintptr, []byte) (int, netip.Addr, error) {
	return 0, netip.Addr{}, errors.ErrUnsupported
}
