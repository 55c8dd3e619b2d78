package sharder

import (
	"context"
	"sync"
)

// tally is what a scan of all objects has found.
type tally struct {
	impatient bool // of the goroutine that scans: it has waited for a drain to end, in vain

	mu       sync.Mutex
	finished chan struct{} // closed when nothing is pending any more, once closing is set
	closing  bool
	pending  int // objects that a worker has still to deal with
	objects  int
	placed   int
	changed  int            // objects that had something written
	shards   map[string]int // objects by the shard that they are with
}

func newTally() *tally { return &tally{finished: make(chan struct{}), shards: map[string]int{}} }

// count takes in an object, and whether it is where it belongs already.
func (t *tally) count(shard string, placed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects++
	if placed {
		t.placed++
	}
	if shard != "" {
		t.shards[shard]++
	}
}

// expect takes in that a worker deals with an object that has been counted.
func (t *tally) expect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed++
	t.pending++
}

// outcome says how that turned out.
func (t *tally) outcome(placed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if placed {
		t.placed++
	}
	t.check()
}

func (t *tally) check() {
	if t.closing && t.pending == 0 {
		close(t.finished)
		t.closing = false
	}
}

// wait returns when all workers have dealt with what they had to, or when ctx has ended. It is called once, after the last
// expect.
func (t *tally) wait(ctx context.Context) error {
	t.mu.Lock()
	t.closing = true
	t.check()
	t.mu.Unlock()
	select {
	case <-t.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
