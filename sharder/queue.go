package sharder

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// queue holds the objects that wait for a worker, each once, however often it was offered. It is bounded: who offers waits.
type queue struct {
	capacity int
	later    chan struct{} // something has been delayed

	mu      sync.Mutex
	changed *sync.Cond // of mu: something is ready, or there is room, or a context has ended
	items   map[protocol.Ref]*item
	urgent  []*item // ready, in order: what nobody may be working on, which would otherwise wait until all drains have begun
	ready   []*item // after those, in order: what is to be drained
	delayed delays
	stuck   int // of delayed, those that have failed again and again
}

// subject is one version of an object that may have to be dealt with: a root or a child.
type subject interface{ At() protocol.Ref }

// item is one object in a queue.
type item struct {
	protocol.Ref
	latest   subject     // nil: it has to be read
	scan     *scanResult // that waits for the outcome; nil: none does
	slot     bool        // it may be drained
	failures int
	wrote    bool   // something has been written on the object since it was taken
	said     string // what has been logged of its failures

	queued bool // it is in urgent or ready
	taken  bool // a worker has it
	again  bool // it was offered meanwhile
	due    time.Time
	index  int // in delayed; -1: it is not there
}

func newQueue(capacity int) *queue {
	q := &queue{capacity: capacity, items: map[protocol.Ref]*item{}, later: make(chan struct{}, 1)}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// watch wakes whoever waits when ctx ends. Call the function that it returns before the queue goes.
func (q *queue) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}

// offer puts a version of an object into the queue; the latest offered counts. It waits for room,
// and reports whether ctx has not ended before. If scan is not nil, it is told once how the object
// turned out. An object that has failed again and again is read and worked on when that is due,
// whatever is offered.
func (q *queue) offer(ctx context.Context, o subject, scan *scanResult, slot bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	watched := false
	for ctx.Err() == nil {
		i, known := q.items[o.At()]
		if !known && len(q.items) >= q.capacity {
			if !watched {
				watched = true
				defer q.watch(ctx)()
			}
			q.changed.Wait()
			continue
		}
		if !known {
			i = &item{Ref: o.At(), index: -1}
			q.items[o.At()] = i
		}
		i.slot = i.slot || slot
		if i.waits() {
			return true
		}
		i.latest = o
		if scan != nil && i.scan != scan {
			i.scan = scan
			scan.expect()
		}
		q.enqueue(i)
		return true
	}
	return false
}

// enqueue makes an item ready, or notes that it has to be looked at again. The caller holds mu.
func (q *queue) enqueue(i *item) {
	switch {
	case i.taken:
		i.again = true
	case !i.queued:
		if i.index >= 0 {
			if i.waits() {
				q.stuck--
			}
			heap.Remove(&q.delayed, i.index)
		}
		i.queued = true
		if i.slot {
			q.ready = append(q.ready, i)
		} else {
			q.urgent = append(q.urgent, i)
		}
		q.changed.Broadcast()
	}
}

// take waits for an item, which is the caller's until done or retry, and returns what is known of the object, and whether there is a slot
// for it. It returns nil when ctx has ended. watch has to be in force for ctx.
func (q *queue) take(ctx context.Context) (i *item, latest subject, slot bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil {
		from := &q.urgent
		if len(*from) == 0 {
			from = &q.ready
		}
		if len(*from) > 0 {
			i := (*from)[0]
			(*from)[0] = nil
			*from = (*from)[1:]
			i.queued, i.taken, i.wrote = false, true, false
			slot, i.slot = i.slot, false // one that comes while the item is taken is for the next time
			return i, i.latest, slot
		}
		q.changed.Wait()
	}
	return nil, nil, false
}

// done ends the work on an item; placed is how it turned out.
func (q *queue) done(i *item, placed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.end(placed)
	if i.again {
		i.again, i.failures = false, 0
		q.enqueue(i)
		return
	}
	delete(q.items, i.Ref)
	q.changed.Broadcast()
}

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 30 * time.Second
	// patience is how often an object may fail, within some two seconds, before nothing waits for
	// it any more.
	patience = 6
)

// waits reports whether the item has failed again and again, and is not due yet.
func (i *item) waits() bool { return i.index >= 0 && i.failures > patience }

// waits reports whether an object has failed again and again, and is not due yet.
func (q *queue) waits(r protocol.Ref) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[r]
	return i != nil && i.waits()
}

// retry has an item read and worked on again, the later the more often that has happened. It reports false, and forgets the item, if
// so many items wait for that already that others would have no room.
func (q *queue) retry(i *item, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.end(false)
	i.latest = nil
	i.failures++
	switch {
	case i.again: // which brings a version that may be newer than the failure, or not: read it
		i.again = false
	case len(q.delayed) >= q.capacity/2:
		delete(q.items, i.Ref)
		q.changed.Broadcast()
		return false
	}
	i.due = now.Add(min(minBackoff<<min(i.failures-1, 20), maxBackoff))
	heap.Push(&q.delayed, i)
	if i.waits() {
		q.stuck++
	}
	notify(q.later)
	return true
}

// end gives the item back, and tells the scan that waits for it.
func (i *item) end(placed bool) {
	i.taken = false
	if i.scan != nil {
		i.scan.outcome(i.Ref, placed, i.wrote)
		i.scan = nil
	}
}

// next makes ready what is due, and returns when the next item is; ok is false if there is none.
func (q *queue) next(now time.Time) (due time.Time, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.delayed) > 0 {
		i := q.delayed[0]
		if i.due.After(now) {
			return i.due, true
		}
		q.enqueue(i)
	}
	return time.Time{}, false
}

// len is how many objects are waiting or being worked on.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// busy is how many of them do not merely wait because they have failed again and again.
func (q *queue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.stuck
}

// delays is a heap of items, the next due first.
type delays []*item

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push is for package heap.
func (d *delays) Push(x any) {
	i := x.(*item)
	i.index = len(*d)
	*d = append(*d, i)
}

// Pop is for package heap.
func (d *delays) Pop() any {
	old := *d
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	i.index = -1
	return i
}
