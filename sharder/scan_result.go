package sharder

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// scanResult is what a scan of all objects has found.
type scanResult struct {
	impatient bool // of the goroutine that scans: it has waited for a drain to end, in vain

	mu       sync.Mutex
	finished chan struct{} // closed when nothing is pending any more, once closing is set
	closing  bool
	pending  int // objects that a worker has still to deal with
	objects  int
	placed   int
	changed  int            // objects that had something written
	shards   map[string]int // objects by the shard that they are with

	// displaced are those that are not where they belong, if there are few.
	displaced map[protocol.Ref]protocol.Root
	many      bool
}

// maxApart is how many objects may be out of place in a ring that counts as settled but for them.
const maxApart = 100

func newScanResult() *scanResult {
	return &scanResult{finished: make(chan struct{}), shards: map[string]int{}, displaced: map[protocol.Ref]protocol.Root{}}
}

// count takes in an object, and whether it is where it belongs already.
func (t *scanResult) count(v protocol.Root, placed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects++
	if v.Label != "" {
		t.shards[v.Label]++
	}
	switch {
	case placed:
		t.placed++
	case len(t.displaced) < maxApart:
		t.displaced[v.Ref] = v
	default:
		t.many = true
	}
}

// expect takes in that a worker deals with an object that has been counted.
func (t *scanResult) expect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending++
}

// outcome says how that turned out, and whether something was written.
func (t *scanResult) outcome(r protocol.Ref, placed, wrote bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if wrote {
		t.changed++
	}
	if placed {
		t.placed++
		delete(t.displaced, r)
	}
	t.check()
}

// left returns the objects that are not where they belong; ok is false if they are too many.
func (t *scanResult) left() (all []protocol.Root, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.displaced)), !t.many
}

func (t *scanResult) check() {
	if t.closing && t.pending == 0 {
		close(t.finished)
		t.closing = false
	}
}

// wait returns when all workers have dealt with what they had to, or when ctx has ended. It is called once, after the last
// expect.
func (t *scanResult) wait(ctx context.Context) error {
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
