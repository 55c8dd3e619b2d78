package e2e

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Proxy is the network between one client and the API server: a TCP forwarder that fails on
// request. TLS stays end to end. Safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	joined   sync.WaitGroup // every goroutine
	received atomic.Int64   // by clients

	mu          sync.Mutex
	cut         bool
	delay       time.Duration
	healed      chan struct{} // what a black hole waits for: closed by Heal; nil without one
	swallowing  bool          // new connections too
	connections map[*connection]struct{}
}

// Proxy returns a new proxy in front of the API server, without faults. It is closed with the
// control plane.
func (c *ControlPlane) Proxy() (*Proxy, error) {
	proxy, err := NewProxy(c.apiPort.address())
	if err != nil {
		return nil, err
	}
	c.proxiesMu.Lock()
	defer c.proxiesMu.Unlock()
	c.proxies = append(c.proxies, proxy)
	return proxy, nil
}

// NewProxy returns a proxy on a loopback port in front of target ("host:port"), without faults.
func NewProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("e2e: start proxy: %w", err)
	}
	return NewProxyAt(listener, target), nil
}

// NewProxyAt is [NewProxy] for a listener, which the proxy closes.
func NewProxyAt(listener net.Listener, target string) *Proxy {
	p := &Proxy{
		target:      target,
		listener:    listener,
		connections: map[*connection]struct{}{},
	}
	p.joined.Go(p.accept)
	return p
}

// Address is where the proxy listens: "127.0.0.1:<port>".
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Received returns how many bytes the clients have received through the proxy so far, TLS included.
func (p *Proxy) Received() int64 { return p.received.Load() }

// Config returns a copy of a client's configuration that goes through the proxy.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + p.Address()
	return config
}

// Cut resets all connections, and every new one at once, until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.connections {
		c.reset()
	}
}

// Delay holds back by d whatever arrives from now on, each way, without limiting how much is under
// way. Zero is no delay.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// BlackHole forwards nothing until Heal, while connections stay open and new ones are accepted: a
// client notices only by its own timeouts. As on a network that loses packets, data sent meanwhile
// arrives after Heal, unless the connection was closed.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing = true
	p.swallow()
}

// BlackHoleConnections is BlackHole for existing connections only, as when a NAT has forgotten
// them. New ones work.
func (p *Proxy) BlackHoleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow()
}

// swallow makes black holes of all connections. The caller holds the mutex.
func (p *Proxy) swallow() {
	if p.healed == nil {
		p.healed = make(chan struct{})
	}
	for c := range p.connections {
		c.healed = p.healed
	}
}

// Heal ends all faults. Connections that were reset stay so.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.delay, p.swallowing = false, 0, false
	if p.healed != nil {
		close(p.healed)
		p.healed = nil
	}
}

// Close stops listening, resets all connections and returns when nothing of the proxy runs any
// more.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Cut()
	p.joined.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.joined.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	c := &connection{client: client, done: make(chan struct{})}
	p.mu.Lock()
	if p.cut {
		c.reset()
		p.mu.Unlock()
		return
	}
	if p.swallowing {
		c.healed = p.healed
	}
	p.connections[c] = struct{}{}
	p.mu.Unlock()
	defer p.end(c)

	server, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil {
		return // the API server is down: the client sees its connection closed
	}
	p.mu.Lock()
	c.server = server.(*net.TCPConn)
	if isClosed(c.done) { // cut while dialling
		_ = server.Close()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.forward(c, c.client, c.server, &atomic.Int64{}) })
	both.Go(func() { p.forward(c, c.server, c.client, &p.received) })
	both.Wait()
}

// end closes a connection after all data written to it has been sent.
func (p *Proxy) end(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
	c.close()
}

// chunk is what one read returned.
type chunk struct {
	data []byte
	due  time.Time
}

// dialTimeout bounds how long an API server that is paused with a full backlog can hold up Close.
const dialTimeout = 3 * time.Second

// maxChunks bounds the data under way in one direction. At the bound the sender blocks, as on a
// network.
const maxChunks = 1024

// forward carries one direction of a connection until it ends, and counts the bytes. Then the other
// direction ends too: no client here uses a half-closed connection.
func (p *Proxy) forward(c *connection, from, to *net.TCPConn, count *atomic.Int64) {
	underway := make(chan chunk, maxChunks)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer p.end(c)
	reader.Go(func() {
		defer close(underway)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			select {
			case underway <- chunk{data: data[:n], due: p.due()}:
			case <-c.done:
				return
			}
			if err != nil {
				p.hangUp(c)
				return
			}
		}
	})
	for next := range underway {
		if !p.pass(c, next.due) {
			return
		}
		n, err := to.Write(next.data)
		count.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// hangUp is called when one side of a connection has closed it: data that it had sent into a black
// hole never arrives.
func (p *Proxy) hangUp(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.healed != nil && !isClosed(c.healed) {
		c.close()
	}
}

func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

// pass returns when something due at that time may be forwarded, false if the connection has ended
// before.
func (p *Proxy) pass(c *connection, due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.done:
			return false
		}
	}
	p.mu.Lock()
	healed := c.healed
	p.mu.Unlock()
	if healed == nil {
		return true
	}
	select {
	case <-healed:
		return true
	case <-c.done:
		return false
	}
}

// connection is one client's connection and ours to the server. Its fields belong to the proxy's
// mutex.
type connection struct {
	client, server *net.TCPConn  // server is nil until connected
	healed         chan struct{} // of the latest black hole it was in; nil if none
	done           chan struct{}
}

// reset closes both sides abruptly: data under way is lost. The caller holds the proxy's mutex.
func (c *connection) reset() {
	for _, side := range []*net.TCPConn{c.client, c.server} {
		if side != nil {
			_ = side.SetLinger(0)
		}
	}
	c.close()
}

// close closes both sides. The caller holds the proxy's mutex.
func (c *connection) close() {
	if isClosed(c.done) {
		return
	}
	close(c.done)
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
