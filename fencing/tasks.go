package fencing

import (
	"context"
	"sync"
	"time"
)

// tick is the interval at which the controller checks all nodes.
const tick = time.Second

// tasks has the goroutines of a term, among them one for each fence under way.
type tasks struct {
	ended sync.WaitGroup

	mu     sync.Mutex
	closed bool
	fences map[string]chan struct{} // under way, by node; each channel makes its fence decide again
}

// begin runs a function in a goroutine, unless the term is ending.
func (t *tasks) begin(something func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.ended.Go(something)
	}
	return !t.closed
}

// fence runs a fence in a goroutine, unless one of this node is running or the term is ending.
func (t *tasks) fence(node string, carryOut func(woken <-chan struct{})) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fences[node] != nil || t.closed {
		return
	}
	woken := make(chan struct{}, 1)
	t.fences[node] = woken
	t.ended.Go(func() {
		carryOut(woken)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.fences, node)
	})
}

// wake makes the fence of a node decide again.
func (t *tasks) wake(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case t.fences[node] <- struct{}{}:
	default: // it is awake, or there is no fence
	}
}

// end cancels all goroutines and waits until they have ended. No other one begins.
func (t *tasks) end(cancel context.CancelFunc) {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	cancel()
	t.ended.Wait()
}
