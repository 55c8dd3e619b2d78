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
	// DefaultAddress is the destination of fence_kdump_send.
	DefaultAddress = ":7410"

	// A message consists of magic and version, of 32 bits each, in the byte order of the
	// sender.
	magic   = 0x1B302A40
	version = 1

	// patience is how long Receive waits for a message.
	patience = time.Second
	// atOnce is how many addresses one call remembers.
	atOnce = 4096
)

// Port receives messages. Use it from one goroutine at a time.
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

// Address returns the address of the port.
func (p *Port) Address() netip.AddrPort { return p.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// Receive returns the addresses from which messages have come since the previous call began, each
// once. It waits about a second at most for the first one, and returns an empty list if nothing
// arrives. It returns when no further message is pending; the next call returns later ones.
func (p *Port) Receive(ctx context.Context) ([]netip.Addr, error) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-interrupted // otherwise it would end the next call
		}
	}()
	var from []netip.Addr
	for {
		if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, fmt.Errorf("kdump: receive: %w", err)
		}
		if ctx.Err() != nil { // before or after the end of ctx has set another deadline
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

// drain receives until nothing is pending or the deadline has passed. In a process that was
// stopped, the deadline may pass before the first receive. Then emptied is false.
func (p *Port) drain(from *[]netip.Addr) (emptied bool, err error) {
	var failed error
	waited := p.raw.Read(func(fd uintptr) bool {
		var message [9]byte // one byte more than a message
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
