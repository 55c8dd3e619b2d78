package kdump_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/kdump"
)

var message = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x1B302A40), 1)

func listen(t *testing.T, address string) *kdump.Port {
	t.Helper()
	port, err := kdump.Listen(address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Close()) })
	return port
}

// send sends from one of the addresses of this machine.
func send(t *testing.T, to netip.AddrPort, from string, messages ...[]byte) {
	t.Helper()
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(to))
	require.NoError(t, err)
	for _, m := range messages {
		_, err := conn.Write(m)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
}

func addresses(all ...string) (parsed []netip.Addr) {
	for _, one := range all {
		parsed = append(parsed, netip.MustParseAddr(one))
	}
	return parsed
}

func TestReceivesFromManyNodes(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", ":0"} { // the latter is of both families
		port := listen(t, address)
		to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port.Address().Port())
		send(t, to, "127.0.0.2", message)
		send(t, to, "127.0.0.3", message, message)
		send(t, to, "127.0.0.2", message)
		from, err := port.Receive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, addresses("127.0.0.2", "127.0.0.3"), from)
	}
}

func TestReceivesFromMachinesOfTheOtherByteOrder(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	send(t, port.Address(), "127.0.0.1",
		binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 0x1B302A40), 1))
	from, err := port.Receive(t.Context())
	require.NoError(t, err)
	assert.Equal(t, addresses("127.0.0.1"), from)
}

func TestWhatIsNotAMessageIsIgnored(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	other := append([]byte{}, message...)
	other[0]++
	later := append([]byte{}, message...)
	later[4]++
	send(t, port.Address(), "127.0.0.2", nil, message[:7], append(message[:8:8], 0), other, later)
	from, err := port.Receive(t.Context())
	require.NoError(t, err)
	assert.Empty(t, from)
}

// A message that arrives between two calls of Receive is returned by the next call and by no later
// one. It is newer than any clock reading taken before the call that preceded it.
func TestMessagesAreNotOlderThanTheCallBefore(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	for range 20 {
		send(t, port.Address(), "127.0.0.2", message, message, message)
		from, err := port.Receive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, addresses("127.0.0.2"), from)
	}
	from, err := port.Receive(t.Context())
	require.NoError(t, err)
	assert.Empty(t, from, "nothing is left for a call that did not see it come")
}

func TestReceiveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	const calls = 30
	began := time.Now()
	for range calls {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		_, err := port.Receive(ctx)
		cancel()
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.Less(t, time.Since(began), calls*time.Second*2/3, "each waits a second for a message, if it may")
	send(t, port.Address(), "127.0.0.2", message)
	from, err := port.Receive(t.Context())
	require.NoError(t, err, "it can be used again")
	assert.NotEmpty(t, from)
}

func TestReceiveOfAClosedPortFails(t *testing.T) {
	t.Parallel()
	port, err := kdump.Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, port.Close())
	_, err = port.Receive(t.Context())
	assert.ErrorIs(t, err, net.ErrClosed)
}

func TestListenSaysWhy(t *testing.T) {
	t.Parallel()
	port := listen(t, "127.0.0.1:0")
	_, err := kdump.Listen(port.Address().String())
	assert.ErrorContains(t, err, "address already in use")
	_, err = kdump.Listen("nonsense")
	assert.ErrorContains(t, err, "kdump: listen: ")
}
