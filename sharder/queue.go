package sharder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// queue holds the objects that wait for a worker, each once, however often it was offered. It is
// bounded, so offer waits for room.
type queue struct {
	capacity  int
	unsettled chan struct{} // an object is displaced, and no worker is about to mend it
	progress  chan struct{} // fewer objects wait or are drained than before

	mu      sync.Mutex
	changed *sync.Cond // of mu: an item is ready, there is room, or a context has ended
	items   map[protocol.Ref]*item
	urgent  []*item // ready, in order: objects that no shard works on, which would otherwise wait behind drains
	ready   []*item // ready, in order, after urgent: objects to be drained
	hanging []*item // ready, in order, after all others and for few workers: objects whose last attempt hung
	delayed int     // how many items wait for their timer
	stuck   int     // how many items wait, in the sense of item.waits
	turns   turns
}

// subject is one version of a root or of a child that may need work.
type subject interface{ At() protocol.Ref }

// item is one object in a queue.
type item struct {
	protocol.Ref
	latest   subject     // nil: read it first
	scan     *scanResult // waits for the outcome; may be nil
	slot     bool        // has a drain slot
	failures int
	wrote    bool   // the object was written since the item was taken
	hung     bool   // the last attempt failed, and held up a worker for protocol.HangsAfter
	held     bool   // until it is due, there is nothing to do
	said     string // the failure logged last
	// unless, if the item is held, is the version of a root that is due at once if its
	// specification changes.
	unless *protocol.Root

	queued bool        // in urgent, ready or hanging
	taken  bool        // with a worker
	turn   *turn       // of that worker; nil once ended
	again  bool        // offered since it was taken
	timer  *time.Timer // until the item is ready again; nil unless it is delayed
}

// newQueue returns a queue whose workers have this many places.
func newQueue(capacity, places int) *queue {
	q := &queue{
		capacity: capacity, unsettled: make(chan struct{}, 1), progress: make(chan struct{}, 1),
		items: map[protocol.Ref]*item{}, turns: turns{places: places},
	}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// watch wakes all waiters when ctx ends. Call stop before the queue is dropped.
func (q *queue) watch(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}

// drop stops the timers of items that are delayed. The queue must not be used afterwards.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range q.items {
		if i.timer != nil {
			i.timer.Stop()
		}
	}
}

// offer puts a version of an object into the queue, where the latest version counts. It waits for
// room, and returns false if ctx ended before. If scan is not nil, it is called once with the
// outcome. An object that waits, in the sense of [item.waits], is worked on when its turn comes,
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
			i = &item{Ref: o.At()}
			q.items[o.At()] = i
		}
		i.slot = i.slot || slot
		if i.waits() && !i.changedIn(o) {
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

// enqueue makes an item ready, or marks a taken one as offered again. The caller holds mu.
func (q *queue) enqueue(i *item) {
	switch {
	case i.taken:
		i.again = true
	case !i.queued:
		if i.timer != nil {
			i.timer.Stop()
			i.timer = nil
			q.delayed--
		}
		i.queued = true
		switch {
		case i.hung:
			q.hanging = append(q.hanging, i)
		case i.slot:
			q.ready = append(q.ready, i)
		default:
			q.urgent = append(q.urgent, i)
		}
		q.changed.Broadcast()
	}
}

// take waits for an item and a place, which are the caller's until done, retry or hold. With
// hanging, it may be an item whose last attempt hung. It returns the last known version of the
// object, and whether it has a drain slot. It returns nil if ctx has ended. watch must have been
// called for ctx.
func (q *queue) take(ctx context.Context, hanging bool) (i *item, latest subject, slot bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ctx.Err() == nil {
		from := &q.urgent
		if len(*from) == 0 {
			from = &q.ready
		}
		if len(*from) == 0 && hanging {
			from = &q.hanging
		}
		if len(*from) > 0 && q.turns.free() {
			i := (*from)[0]
			(*from)[0] = nil
			*from = (*from)[1:]
			if i.waits() {
				q.stuck--
			}
			i.queued, i.taken, i.wrote, i.hung, i.held, i.unless = false, true, false, false, false, nil
			i.turn = q.turns.begin()
			slot, i.slot = i.slot, false // a slot offered from now on is for the next time
			return i, i.latest, slot
		}
		q.changed.Wait()
	}
	return nil, nil, false
}

// limit makes the turn of an item that was taken leave its place to others when it takes long. The
// context ends with the turn, or with errGivenUp as its cause.
func (q *queue) limit(ctx context.Context, i *item) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := i.turn
	t.giveUp = func() { cancel(errGivenUp) }
	timer := time.AfterFunc(longAfter, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if i.turn == t {
			q.turns.prolong(t)
			q.changed.Broadcast()
		}
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// leave ends the turn of an item whose work continues elsewhere.
func (q *queue) leave(i *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endTurn(i, false)
}

// endTurn ends the turn of an item, if it has not ended. The caller holds mu.
func (q *queue) endTurn(i *item, hung bool) {
	if i.turn != nil {
		q.turns.end(i.turn, hung)
		i.turn = nil
		q.changed.Broadcast()
	}
}

// done ends the work on an item. placed means that the object is with its owner.
func (q *queue) done(i *item, placed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endTurn(i, false)
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
	// patience is how many failures, within some two seconds, others wait for before they continue
	// without the object.
	patience = 6
)

// waits reports whether others continue without the item, because it has failed more than patience
// times, or hung, or is held, and its turn has not come.
func (i *item) waits() bool {
	return (i.timer != nil || i.queued) && (i.failures > patience || i.hung || i.held)
}

// changedIn reports whether the item is held unless its specification changes, as in this version.
func (i *item) changedIn(o subject) bool {
	r, ok := o.(protocol.Root)
	return ok && i.unless != nil && r.ChangedSince(*i.unless)
}

// waits is [item.waits] of an object's item, or false if it has no item.
func (q *queue) waits(r protocol.Ref) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[r]
	return i != nil && i.waits()
}

// retry causes an item to be read and worked on again after a delay that grows with its failures.
// It returns false, and drops the item, if so many items are delayed that they would leave no room
// for others.
func (q *queue) retry(i *item, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.failures++
	return q.delay(i, now.Add(min(minBackoff<<min(i.failures-1, 20), maxBackoff)))
}

// heldError means that there is nothing to do about an object before a time, unless it has the
// version of a root and the specification of the root differs from that.
type heldError struct {
	until  time.Time
	unless *protocol.Root
}

func (e heldError) Error() string { return "held until " + e.until.Format(time.TimeOnly) }

// hold is retry when an item is no longer held.
func (q *queue) hold(i *item, e heldError) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.unless = e.unless
	if i.again && i.changedIn(i.latest) { // it was changed while the worker decided
		q.endTurn(i, false)
		i.end(false)
		i.again, i.unless = false, nil
		q.enqueue(i)
		return true
	}
	i.held = true
	return q.delay(i, e.until)
}

// delay is retry at a time. The caller holds mu.
func (q *queue) delay(i *item, due time.Time) bool {
	q.endTurn(i, i.hung)
	i.end(false)
	i.latest = nil
	switch {
	case i.again: // the offered version may be older than the failure: read it
		i.again = false
	case q.delayed+len(q.hanging) >= q.capacity/2:
		delete(q.items, i.Ref)
		q.changed.Broadcast()
		return false
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(due), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if i.timer == timer {
			q.enqueue(i)
		}
	})
	i.timer = timer
	q.delayed++
	if i.waits() {
		q.stuck++
	}
	return true
}

// end releases the item, and gives the outcome to the scan that waits for it.
func (i *item) end(placed bool) {
	i.taken = false
	if i.scan != nil {
		i.scan.outcome(i.Ref, placed, i.wrote)
		i.scan = nil
	}
}

// len returns how many objects are waiting or being worked on.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// busy is len without the objects without which others continue.
func (q *queue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.stuck
}

// notify sends without blocking to a channel of capacity 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	// longAfter is how long the work on an object keeps its place from others.
	longAfter = 250 * time.Millisecond
	// longPerPlace is how many turns that take long there may be for each place.
	longPerPlace = 4
	// hangsFor is how long requests count as hanging after one of too many has failed.
	hangsFor = time.Minute
)

// errGivenUp ends the context of a turn.
var errGivenUp = errors.New("given up, because many requests get no answer")

// turns bounds how many objects are worked on at a time. A turn that takes long leaves its place to
// others, but when too many do, they occupy places after all. If one of them then fails, the oldest
// are given up for a minute, so that others need not wait until they fail. If one succeeds,
// requests are only slow, and none is given up. The mutex of the queue guards all fields.
type turns struct {
	places int
	short  int       // turns that have not taken long
	long   []*turn   // in order
	hung   time.Time // when one of too many failed last; zero once one has succeeded
}

// turn is the work of one worker on an object.
type turn struct {
	giveUp  func()
	began   time.Time
	long    bool
	givenUp bool
}

// excess is how many turns that take long occupy places.
func (t *turns) excess() int { return max(0, len(t.long)-longPerPlace*t.places) }

// free reports whether a turn may begin.
func (t *turns) free() bool { return t.short+t.excess() < t.places }

func (t *turns) begin() *turn {
	t.short++
	return &turn{began: time.Now()}
}

// prolong records that a turn takes long.
func (t *turns) prolong(one *turn) {
	one.long = true
	t.short--
	t.long = append(t.long, one)
	t.relieve()
}

// end ends a turn. hung means that it has failed, and took protocol.HangsAfter or more.
func (t *turns) end(one *turn, hung bool) {
	if !one.long {
		t.short--
		return
	}
	switch now := time.Now(); {
	case one.givenUp || now.Sub(one.began) < protocol.HangsAfter: // proves nothing
	case !hung:
		t.hung = time.Time{}
	case t.excess() > 0:
		t.hung = now
	}
	t.long = slices.DeleteFunc(t.long, func(other *turn) bool { return other == one })
	t.relieve()
}

// relieve gives up the oldest turns that occupy places, if requests hang.
func (t *turns) relieve() {
	if time.Since(t.hung) >= hangsFor {
		return
	}
	for _, one := range t.long[:t.excess()] {
		if !one.givenUp {
			one.givenUp = true
			one.giveUp()
		}
	}
}
