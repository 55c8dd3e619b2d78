package e2e

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestReservedPortIsForSharingServersOnly(t *testing.T) {
	t.Parallel()
	port, err := reservePort()
	require.NoError(t, err)
	t.Cleanup(port.close)

	_, err = net.Listen("tcp", port.address())
	require.ErrorIs(t, err, syscall.EADDRINUSE)

	sharing := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(socket uintptr) {
			assert.NoError(t, unix.SetsockoptInt(int(socket), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		})
	}}
	for range 3 { // a server and its restarts
		server, err := sharing.Listen(context.Background(), "tcp", port.address())
		require.NoError(t, err)
		for range 20 { // none goes to the socket that holds the port
			client, err := net.Dial("tcp", port.address())
			require.NoError(t, err)
			accepted, err := server.Accept()
			require.NoError(t, err)
			require.NoError(t, accepted.Close())
			require.NoError(t, client.Close())
		}
		require.NoError(t, server.Close())
		// Not at once: a child that another test forks holds the server's socket until it executes
		// its program.
		require.Eventually(t, func() bool {
			client, err := net.Dial("tcp", port.address())
			if err == nil {
				_ = client.Close()
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		}, 10*time.Second, time.Millisecond, "between two runs")
		_, err = net.Listen("tcp", port.address())
		require.ErrorIs(t, err, syscall.EADDRINUSE, "between two runs")
	}
}

func TestReservedPortsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 200 {
		port, err := reservePort()
		require.NoError(t, err)
		t.Cleanup(port.close)
		require.False(t, seen[port.number], "port %s twice", strconv.Itoa(port.number))
		seen[port.number] = true
	}
}
