package sharder

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// drains limits how many objects are drained at a time: those whose shards were asked to let go,
// and slots for those about to be asked. The limit exists because no shard works on a drained
// object, and each takes memory.
type drains struct {
	limit int

	freed chan struct{} // a slot is free

	mu   sync.Mutex
	open map[protocol.Ref]*drainage // guarded by mu
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
	return &drains{limit: limit, freed: make(chan struct{}, 1), open: map[protocol.Ref]*drainage{}}
}

// reserve takes a slot for an object and reports whether it has one. With wait, it waits for a free
// slot until ctx ends; one goroutine at a time may do so.
func (d *drains) reserve(ctx context.Context, r protocol.Ref, shard string, now time.Time, wait bool) bool {
	for ctx.Err() == nil {
		if d.take(r, shard, now) {
			return true
		}
		if !wait {
			return false
		}
		select {
		case <-ctx.Done():
		case <-d.freed:
		}
	}
	return false
}

// take takes a slot if there is one.
func (d *drains) take(r protocol.Ref, shard string, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.open[r]; ok {
		return true
	}
	if len(d.open) >= d.limit {
		return false
	}
	d.open[r] = &drainage{since: now, shard: shard, patching: true}
	return true
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
	notify(d.freed)
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

// reportOverdue reports objects that their shards have not let go of in time.
func (d *drains) reportOverdue(ctx context.Context, objects *objects) {
	c := objects.config
	for clock.Sleep(ctx, max(c.OverdueAfter/4, time.Second)) {
		for r, o := range d.overdue(time.Now().Add(-c.OverdueAfter)) {
			objects.log(r).Warn("a shard does not let go of an object", zap.String("shard", o.shard),
				zap.Time("since", o.since))
			c.Hooks.OnOverdue(Overdue{objects.ref(r), o.shard, o.since})
		}
	}
}
