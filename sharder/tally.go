package sharder

import (
	"context"
	"maps"
	"slices"
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

	// apart are those that are not where they belong, if there are few.
	apart map[ref]root
	many  bool
}

// maxApart is how many objects may be out of place in a ring that counts as settled but for them.
const maxApart = 100

func newTally() *tally {
	return &tally{finished: make(chan struct{}), shards: map[string]int{}, apart: map[ref]root{}}
}

// count takes in an object, and whether it is where it belongs already.
func (t *tally) count(v root, placed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects++
	if v.label != "" {
		t.shards[v.label]++
	}
	switch {
	case placed:
		t.placed++
	case len(t.apart) < maxApart:
		t.apart[v.ref] = v
	default:
		t.many = true
	}
}

// expect takes in that a worker deals with an object that has been counted.
func (t *tally) expect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending++
}

// outcome says how that turned out, and whether something was written.
func (t *tally) outcome(r ref, placed, wrote bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if wrote {
		t.changed++
	}
	if placed {
		t.placed++
		delete(t.apart, r)
	}
	t.check()
}

// left returns the objects that are not where they belong; ok is false if they are too many.
func (t *tally) left() (all []root, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.apart)), !t.many
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
