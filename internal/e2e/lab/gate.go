package lab

import (
	"net"
	"sync"
)

// gate is what the servers that run in this process pass before they do anything, so that they can
// hang.
type gate struct {
	passing sync.RWMutex
	frozen  sync.Mutex
	closed  bool
}

func (g *gate) pass() {
	g.passing.RLock()
	g.passing.RUnlock() //nolint:staticcheck // having had it is all
}

func (g *gate) freeze() error {
	g.frozen.Lock()
	defer g.frozen.Unlock()
	if !g.closed {
		g.passing.Lock()
		g.closed = true
	}
	return nil
}

func (g *gate) thaw() error {
	g.frozen.Lock()
	defer g.frozen.Unlock()
	if g.closed {
		g.passing.Unlock()
		g.closed = false
	}
	return nil
}

// gatedListener accepts connections, as the kernel does for a process that hangs, and hands them on
// when the gate is open.
type gatedListener struct {
	net.Listener
	gate *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	l.gate.pass()
	return connection, err
}
