package controllerruntime

import "sync"

// activity counts what runs in a term besides the runnables of its manager, which waits for those.
type activity struct {
	mu      sync.Mutex
	over    bool           // guarded by mu
	running sync.WaitGroup // grows only while mu is held and over is false
}

// begin reports whether the term is still running. If so, done must be called.
func (a *activity) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return false
	}
	a.running.Add(1)
	return true
}

func (a *activity) done() { a.running.Done() }

// end lets nothing begin any more, and returns when all that has begun is done.
func (a *activity) end() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.running.Wait()
}
