package fencing

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Dumps receives messages from kernels that have stopped and write a dump. *kdump.Port implements
// it.
type Dumps interface {
	// Receive returns the addresses of the messages that came since the last call began. It waits a
	// few seconds at most for the first message, and returns when no more are pending.
	Receive(ctx context.Context) ([]netip.Addr, error)
	Close() error
}

// dumps keeps the dump messages that this process has received.
type dumps struct {
	config *Config
	nodes  corelisters.NodeLister
	tasks  *tasks
	clock  clock.Clock

	mu     sync.Mutex
	wanted bool // a node has kdump=yes
	tried  time.Time
	failed error // why no messages are received; nil if they are, or before the first want
	last   map[string]heard
}

// heard is the last message of a node.
type heard struct {
	node types.UID
	at   clock.Reading // or later
}

// want starts to receive messages, until ctx ends. It returns the error that prevents it.
func (d *dumps) want(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted || d.failed != nil && time.Since(d.tried) < tick {
		return d.failed
	}
	d.tried = time.Now()
	port, err := d.config.Dumps()
	if d.say(err); err != nil {
		return err
	}
	if d.wanted = d.tasks.begin(func() { d.listen(ctx, port) }); !d.wanted {
		return port.Close()
	}
	return nil
}

// listen receives messages until ctx ends.
func (d *dumps) listen(ctx context.Context, port Dumps) {
	defer func() { _ = port.Close() }()
	var before *clock.Reading // before the last successful call; nil before the first one
	for ctx.Err() == nil {
		began := d.clock.Now()
		from, err := port.Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		d.say(err)
		d.mu.Unlock()
		if err != nil {
			clock.Sleep(ctx, tick)
			continue
		}
		if before != nil {
			d.hears(from, *before)
		}
		before = &began
	}
}

// say stores why no messages are received. The caller holds mu.
func (d *dumps) say(err error) {
	if err != nil && (d.failed == nil || d.failed.Error() != err.Error()) {
		d.config.Logger.Warn("dump messages cannot be received", zap.Error(err))
	}
	d.failed = err
}

// hears finds the nodes of messages. An address that two nodes share counts for neither.
func (d *dumps) hears(from []netip.Addr, at clock.Reading) {
	if len(from) == 0 {
		return
	}
	nodes, _ := d.nodes.List(labels.Everything()) // a lister of an informer has no errors
	of := map[netip.Addr][]*corev1.Node{}
	for _, n := range nodes {
		for _, a := range addresses(n) {
			of[a] = append(of[a], n)
		}
	}
	for _, addr := range from {
		if len(of[addr]) != 1 {
			d.config.Logger.Debug("dump message from an address of no node or of several nodes",
				zap.Stringer("address", addr), zap.Int("nodes", len(of[addr])))
			continue
		}
		n := of[addr][0]
		d.mu.Lock()
		d.last[n.Name] = heard{n.UID, at}
		d.mu.Unlock()
		d.tasks.wake(n.Name)
	}
}

// addresses returns the addresses of a node, each once.
func addresses(n *corev1.Node) (all []netip.Addr) {
	seen := map[netip.Addr]bool{}
	for _, a := range n.Status.Addresses {
		addr, err := netip.ParseAddr(a.Address)
		if addr = addr.Unmap().WithZone(""); err == nil && !seen[addr] {
			seen[addr] = true
			all = append(all, addr)
		}
	}
	return all
}

// of returns a time at or before the arrival of a node's last message, or zero if none has arrived.
func (d *dumps) of(node string, uid types.UID) clock.Reading {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := d.last[node]; last.node == uid {
		return last.at
	}
	return clock.Reading{}
}
