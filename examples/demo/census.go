package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// census records from a watch which shard has which of the ConfigMaps.
type census struct {
	ring string // its name

	mu      sync.Mutex
	objects map[types.UID]*resident // guarded by mu
	moved   move                    // guarded by mu: since the latest mark
	news    chan struct{}           // has something when something has changed
}

// resident is the known state of a ConfigMap.
type resident struct {
	key     []byte    // its place on the ring
	shard   string    // whose label it has, empty if it has none
	leaving bool      // that shard has to release it
	owner   string    // the last shard that had it without leaving
	free    time.Time // since when no shard has it; zero if one does
	right   bool      // its checksum is
}

// move sums up the moves since a mark.
type move struct {
	objects     int
	first, last time.Time
	unattended  time.Duration // the longest for which an object was on its way between two shards
}

func newCensus(ring string) *census {
	return &census{ring: ring, objects: map[types.UID]*resident{}, news: make(chan struct{}, 1)}
}

// see processes a version of an object.
func (c *census) see(m *corev1.ConfigMap, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.objects[m.UID]
	if r == nil {
		r = &resident{key: api.ObjectKey(nil, schema.GroupKind{Kind: "ConfigMap"}, m), free: now}
		c.objects[m.UID] = r
	}
	r.shard = m.Labels[api.ShardLabel(c.ring)]
	_, r.leaving = m.Labels[api.DrainLabel(c.ring)]
	r.right = m.Annotations["example.bellwether.dev/sha256"] == checksum(m.Data)
	switch has := r.shard != "" && !r.leaving; {
	case !has && r.free.IsZero():
		r.free = now
	case has && r.owner != r.shard:
		if r.owner != "" && !r.free.IsZero() {
			c.moved.unattended = max(c.moved.unattended, now.Sub(r.free))
		}
		if c.moved.objects++; c.moved.first.IsZero() {
			c.moved.first = now
		}
		c.moved.last = now
		r.owner = r.shard
		fallthrough
	case has:
		r.free = time.Time{}
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// mark restarts the count of moves.
func (c *census) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = move{}
}

// since returns the moves since the mark.
func (c *census) since() move {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

// placed reports whether each of n objects is with its shard by the ring, and that shard has
// finished its work on it.
func (c *census) placed(n int, shards []string) (bool, error) {
	weights := map[string]int{}
	for _, name := range shards {
		weights[name] = shardlease.DefaultWeight
	}
	r, err := sharder.RingOf(weights)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if owner, _ := r.OwnerBytes(o.key); owner != o.shard || o.leaving {
			return false, nil
		}
	}
	return len(c.objects) == n, nil
}

// size is the number of objects.
func (c *census) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.objects)
}

// right is how many checksums are right.
func (c *census) right() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.objects {
		if o.right {
			n++
		}
	}
	return n
}

// count returns how many objects each shard has now.
func (c *census) count(at time.Duration) count {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := count{at: at, works: map[string]int{}, waiting: map[string]int{}}
	for _, o := range c.objects {
		if o.shard == "" || o.leaving {
			now.waiting[o.shard]++
		} else {
			now.works[o.shard]++
		}
	}
	return now
}

// header is the header of the rows.
func header(shards []string) string {
	return fmt.Sprintf("%8s  %s%8s%8s%18s", "", columns(shards, func(s string) string { return s }), "none", "moving",
		"right checksums")
}

// row is one line of the table: how many objects each shard has, no shard has, are drained, and
// have a right checksum.
func (c *census) row(shards []string, at time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	moving, right := 0, 0
	for _, o := range c.objects {
		counts[o.shard]++
		if o.leaving {
			moving++
		}
		if o.right {
			right++
		}
	}
	return fmt.Sprintf("%6.2f s  %s%8d%8d%12d/%d", at.Seconds(),
		columns(shards, func(s string) string { return fmt.Sprint(counts[s]) }), counts[""], moving, right,
		len(c.objects))
}

func columns(shards []string, cell func(shard string) string) string {
	var b strings.Builder
	for _, s := range shards {
		fmt.Fprintf(&b, "%6s", cell(s))
	}
	return b.String()
}

// checksum is the checksum that examples/sharding has to write.
func checksum(data map[string]string) string {
	encoded, _ := json.Marshal(data) // cannot fail for strings
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
