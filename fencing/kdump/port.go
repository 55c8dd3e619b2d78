package kdump

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// DefaultAddress is where fence_kdump_send sends to.
	DefaultAddress = ":7410"

	// magic and version are all there is in a message, as 32 bits each, in the byte order of the
	// machine that has sent it.
	magic   = 0x1B302A40
	version = 1

	// patience is how long Receive waits for a message.
	patience = time.Second
	// atOnce is how many addresses one call remembers.
	atOnce = 4096
)

// Port is where messages are received. One goroutine at a time may use it.
type Port struct {
	conn *net.UDPConn
	raw  syscall.RawConn
}

// Listen opens a port, such as [DefaultAddress].
func Listen(address string) (*Port, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, fmt.Errorf("kdump: listen: %w", err)
	}
	conn, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, fmt.Errorf("kdump: listen: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("kdump: listen: %w", errors.Join(err, conn.Close()))
	}
	return &Port{conn: conn, raw: raw}, nil
}

// Close closes the port.
func (p *Port) Close() error { return p.conn.Close() }

// Address is where the port is.
func (p *Port) Address() netip.AddrPort { return p.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Receive returns from where messages have come since the call before it began, each address once.
// It waits for the first for about a second at most; without any it returns none. It returns after
// it has found that there is no further one, so one that comes later is returned by the next call.
func (p *Port) Receive(ctx context.Context) ([]netip.Addr, error) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted // it would end the next call
		}
	}()
	var from []netip.Addr
	for {
		if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, fmt.Errorf("kdump: receive: %w", err)
		}
		if ctx.Err() != nil { // before or after its end has set another deadline
			return from, ctx.Err()
		}
		emptied, err := p.drain(&from)
		switch {
		case err != nil:
			return from, fmt.Errorf("kdump: receive: %w", err)
		case emptied:
			return from, ctx.Err()
		}
	}
}

// drain receives until there is nothing more, or the deadline has passed. In a process that stood
// still the deadline may be over before anything was received: then it does not know whether there
// is something.
func (p *Port) drain(from *[]netip.Addr) (emptied bool, err error) {
	var failed error
	waited := p.raw.Read(func(fd uintptr) bool {
		var message [9]byte // one more than a message has
		for {
			n, addr, err := receive(fd, message[:])
			switch {
			case errors.Is(err, syscall.EAGAIN):
				emptied = true
				return len(*from) > 0
			case errors.Is(err, syscall.EINTR):
			case err != nil:
				failed = err
				return true
			case valid(message[:n]) && addr.IsValid() && len(*from) < atOnce && !slices.Contains(*from, addr):
				*from = append(*from, addr)
			}
		}
	})
	if errors.Is(waited, os.ErrDeadlineExceeded) {
		waited = nil
	}
	return emptied, errors.Join(failed, waited)
}

func valid(message []byte) bool {
	if len(message) != 8 {
		return false
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if order.Uint32(message) == magic && order.Uint32(message[4:]) == version {
			return true
		}
	}
	return false
}
