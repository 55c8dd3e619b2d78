package sharder

import (
	"context"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// drains limits how many objects are drained at a time: those whose shards were asked to let go,
// and slots for those about to be asked. The limit exists because no shard works on a drained
// object, and each takes memory.
type drains struct {
	limit int

	mu      sync.Mutex
	changed *sync.Cond // of mu: a slot is free, or a context has ended
	open    map[protocol.Ref]*drainage
}

// drainage is one object that is drained, or about to be.
type drainage struct {
	since    time.Time
	shard    string
	seen     bool // with the drain label
	patching bool // a patch that sets it is under way
	unlisted bool // by the latest list, and not seen since
	reported bool // as overdue
}

func newDrains(limit int) *drains {
	d := &drains{limit: limit, open: map[protocol.Ref]*drainage{}}
	d.changed = sync.NewCond(&d.mu)
	return d
}

// reserve takes a slot for an object and reports whether it has one. With wait, it waits for a free
// slot until ctx ends.
func (d *drains) reserve(ctx context.Context, r protocol.Ref, shard string, now time.Time, wait bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	watched := false
	for ctx.Err() == nil {
		if _, ok := d.open[r]; ok {
			return true
		}
		if len(d.open) < d.limit {
			d.open[r] = &drainage{since: now, shard: shard, patching: true}
			return true
		}
		if !wait {
			return false
		}
		if !watched {
			watched = true
			defer context.AfterFunc(ctx, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.changed.Broadcast()
			})()
		}
		d.changed.Wait()
	}
	return false
}

// patched records how the patch for a slot ended. done means that it certainly set the drain label.
func (d *drains) patched(r protocol.Ref, done bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.open[r]
	if !ok { // acknowledged already
		return
	}
	o.patching = false
	if o.unlisted || !done && !o.seen { // if the patch came after the list, it will be seen
		d.remove(r)
	}
}

// see records that an object carries the drain label. It takes a slot even beyond the limit.
func (d *drains) see(r protocol.Ref, shard string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.open[r]
	if !ok {
		o = &drainage{since: now}
		d.open[r] = o
	}
	if o.shard != shard { // a probe goes from one to the next
		o.shard, o.since, o.reported = shard, now, false
	}
	o.seen, o.unlisted = true, false
}

// gone records that an object no longer carries the drain label.
func (d *drains) gone(r protocol.Ref) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.open[r]; ok {
		d.remove(r)
	}
}

// relist takes a list of all objects of a resource and namespace (empty: all) with the drain label.
func (d *drains) relist(resource int, namespace string, listed map[protocol.Ref]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r, o := range d.open {
		switch {
		case r.Resource != resource || namespace != "" && r.Namespace != namespace || listed[r]:
		case o.patching:
			o.unlisted = true
		default:
			d.remove(r)
		}
	}
}

// remove frees a slot. The caller holds mu.
func (d *drains) remove(r protocol.Ref) {
	delete(d.open, r)
	d.changed.Broadcast()
}

// len returns the number of slots taken.
func (d *drains) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// overdue returns the objects that have been drained since before a time, each only once.
func (d *drains) overdue(before time.Time) map[protocol.Ref]drainage {
	d.mu.Lock()
	defer d.mu.Unlock()
	late := map[protocol.Ref]drainage{}
	for r, o := range d.open {
		if o.seen && !o.reported && o.since.Before(before) {
			o.reported = true
			late[r] = *o
		}
	}
	return late
}
