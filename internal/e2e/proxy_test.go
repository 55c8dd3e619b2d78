package e2e_test

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func proxyFailsOneClientOnly(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "proxy")
	require.NoError(t, err)
	createConfigMap(t, clientFor(t, cp.Admin()), namespace, "there")
	proxy, err := cp.Proxy()
	require.NoError(t, err)
	victim := clientFor(t, proxy.Config(cp.User("victim", "system:masters")))
	bystander := clientFor(t, cp.User("bystander", "system:masters"))
	require.NoError(t, get(t, victim, namespace, "there", patience))

	const limit = 300 * time.Millisecond
	for name, fault := range map[string]func(){"cut": proxy.Cut, "black hole": proxy.BlackHole} {
		fault()
		assert.Error(t, get(t, victim, namespace, "there", limit), name)
		assert.NoError(t, get(t, bystander, namespace, "there", patience), name)
		proxy.Heal()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.NoError(c, get(t, victim, namespace, "there", limit))
		}, patience, poll, name)
	}

	proxy.Delay(limit)
	start := time.Now()
	require.NoError(t, get(t, victim, namespace, "there", patience))
	assert.GreaterOrEqual(t, time.Since(start), 2*limit, "there and back")
}

func TestProxyForwards(t *testing.T) {
	t.Parallel()
	_, conn := proxied(t)
	const size = 4 << 20 // more than all buffers on the way hold
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i >> 8)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		_, err := conn.Write(sent)
		assert.NoError(t, err)
	})
	received := make([]byte, size)
	_, err := io.ReadFull(conn, received)
	require.NoError(t, err)
	writer.Wait()
	assert.Equal(t, sent, received)
}

func TestProxyCountsWhatClientsReceive(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	assert.Zero(t, proxy.Received())
	for range 3 {
		require.NoError(t, echo(conn, patience))
	}
	require.NoError(t, echo(dial(t, proxy), patience))
	require.Eventually(t, func() bool { return proxy.Received() == 4 }, patience, poll, "counted after it was sent")
	proxy.Cut()
	require.Error(t, dialAndEcho(proxy))
	assert.EqualValues(t, 4, proxy.Received())
}

func TestCutProxyResetsAndRefuses(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	require.NoError(t, echo(conn, patience))
	proxy.Cut()
	require.Error(t, echo(conn, patience))
	assert.Error(t, dialAndEcho(proxy), "a new connection")
	proxy.Heal()
	assert.Error(t, echo(conn, patience), "a connection that was reset")
	assert.NoError(t, echo(dial(t, proxy), patience))
}

func TestBlackHoleKeepsConnectionsAndTheirData(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	require.NoError(t, echo(conn, patience))
	proxy.BlackHole()
	proxy.BlackHole() // twice is once
	require.ErrorIs(t, echo(conn, 100*time.Millisecond), os.ErrDeadlineExceeded)
	fresh := dial(t, proxy)
	require.ErrorIs(t, echo(fresh, 100*time.Millisecond), os.ErrDeadlineExceeded)
	proxy.Heal()
	for _, c := range []net.Conn{conn, fresh} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		answer := make([]byte, 1)
		_, err := io.ReadFull(c, answer)
		require.NoError(t, err, "what was sent into the black hole")
	}
}

// A request that a process has sent before it was killed must not arrive after others have taken
// over.
func TestBlackHoleLosesDataOfClosedConnections(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer target.Close()
	proxy, err := e2e.NewProxy(target.Addr().String())
	require.NoError(t, err)
	defer proxy.Close()
	conn := dial(t, proxy)
	server, err := target.Accept()
	require.NoError(t, err)
	defer server.Close()
	proxy.BlackHole()
	_, err = conn.Write([]byte("late"))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, server.SetDeadline(time.Now().Add(patience)))
	received, err := io.ReadAll(server) // to the end, which comes while the black hole lasts
	require.NoError(t, err)
	assert.Empty(t, received)
}

func TestBlackHoleOfConnectionsLetsNewOnesPass(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	require.NoError(t, echo(conn, patience))
	proxy.BlackHoleConnections()
	require.ErrorIs(t, echo(conn, 100*time.Millisecond), os.ErrDeadlineExceeded)
	fresh := dial(t, proxy)
	require.NoError(t, echo(fresh, patience))
	proxy.BlackHoleConnections()
	require.ErrorIs(t, echo(fresh, 100*time.Millisecond), os.ErrDeadlineExceeded)
	proxy.Heal()
	require.NoError(t, echo(dial(t, proxy), patience))
	for _, c := range []net.Conn{conn, fresh} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err := io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err, "what was sent into the black hole")
	}
}

func TestDelayedProxyDelaysEachWayAndKeepsOrder(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	const delay = 100 * time.Millisecond
	proxy.Delay(delay)
	start := time.Now()
	require.NoError(t, echo(conn, patience))
	assert.GreaterOrEqual(t, time.Since(start), 2*delay)

	_, err := conn.Write([]byte("slow"))
	require.NoError(t, err)
	proxy.Heal()
	_, err = conn.Write([]byte("fast"))
	require.NoError(t, err)
	answer := make([]byte, 8)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	assert.Equal(t, "slowfast", string(answer))
}

func TestClosedProxyIsGone(t *testing.T) {
	t.Parallel()
	proxy, conn := proxied(t)
	require.NoError(t, echo(conn, patience))
	proxy.BlackHole() // must not hold up Close
	require.NoError(t, proxy.Close())
	assert.Error(t, echo(conn, patience))
	_, err := net.Dial("tcp", proxy.Address())
	assert.Error(t, err)
}

func TestProxyClosesRefusedConnections(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, target.Close())
	proxy, err := e2e.NewProxy(target.Addr().String())
	require.NoError(t, err)
	defer proxy.Close()
	assert.Error(t, dialAndEcho(proxy))
}

// proxied returns a proxy in front of a server that echoes, and a connection through it.
func proxied(t *testing.T) (*e2e.Proxy, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var server sync.WaitGroup
	server.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	proxy, err := e2e.NewProxy(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = proxy.Close()
		assert.NoError(t, listener.Close())
		server.Wait()
	})
	return proxy, dial(t, proxy)
}

func dial(t *testing.T, proxy *e2e.Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialAndEcho is for proxies that refuse: whether the dial or the echo fails is a matter of
// microseconds.
func dialAndEcho(proxy *e2e.Proxy) error {
	conn, err := net.Dial("tcp", proxy.Address())
	if err != nil {
		return err
	}
	defer conn.Close()
	return echo(conn, patience)
}

// echo sends a byte and reads one, which may take no longer than the limit once that is sent.
func echo(conn net.Conn, limit time.Duration) error {
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("!")); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}
