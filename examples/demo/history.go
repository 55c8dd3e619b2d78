package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// history records which shards had the objects over time and what was done to the shards. It is
// safe for concurrent use.
type history struct {
	mu     sync.Mutex
	counts []count         // guarded by mu
	marks  []mark          // guarded by mu
	gone   map[string]bool // guarded by mu: shards that do not work any more
}

// count is how many objects each shard had at a time.
type count struct {
	at    time.Duration
	works map[string]int // those that it worked on
	// those that have its label, though it is gone or has to release them; those without a label have ""
	waiting map[string]int
}

// mark is something that was done to the shards.
type mark struct {
	at      time.Duration
	name    string
	objects int           // that it moved
	took    time.Duration // until the last of them had arrived
}

func newHistory() *history { return &history{gone: map[string]bool{}} }

// add records a count. Objects of a shard that is gone wait. Of equal counts, only the first and
// the last are kept.
func (h *history) add(c count) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for shard := range h.gone {
		if n := c.works[shard]; n > 0 {
			c.waiting[shard] += n
			delete(c.works, shard)
		}
	}
	alike := func(o count) bool { return maps.Equal(o.works, c.works) && maps.Equal(o.waiting, c.waiting) }
	if n := len(h.counts); n > 1 && alike(h.counts[n-1]) && alike(h.counts[n-2]) {
		h.counts[n-1].at = c.at
		return
	}
	h.counts = append(h.counts, c)
}

// note records what was done to the shards.
func (h *history) note(m mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marks = append(h.marks, m)
}

// leave records that a shard is about to end.
func (h *history) leave(shard string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[shard] = true
}

// all returns everything until now.
func (h *history) all() ([]count, []mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.counts), slices.Clone(h.marks)
}
