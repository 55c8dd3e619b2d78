package sharder

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// caches are the informers of a shard that are running.
type caches struct {
	mu      sync.RWMutex
	running map[schema.GroupVersionResource][]*informer
}

func (c *caches) add(i *informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running = map[schema.GroupVersionResource][]*informer{}
	}
	c.running[i.resource] = append(c.running[i.resource], i)
}

func (c *caches) remove(i *informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var others []*informer
	for _, other := range c.running[i.resource] {
		if other != i {
			others = append(others, other)
		}
	}
	c.running[i.resource] = others
}

// begun returns the caches of a resource whose first list began in a term. What others show may be older than the term.
func (c *caches) begun(term *shardlease.Term, resource schema.GroupVersionResource) []*informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	begun := make([]*informer, 0, len(c.running[resource]))
	for _, i := range c.running[resource] {
		if i.began() == term {
			begun = append(begun, i)
		}
	}
	return begun
}

// newest returns the newest copy of a root that the caches show, nil if none does.
func (s *Shard) newest(term *shardlease.Term, at address) (newest metav1.Object) {
	for _, i := range s.caches.begun(term, at.resource) {
		if o := i.copyOf(at); o != nil && (newest == nil || newer(o, newest)) {
			newest = o
		}
	}
	return newest
}

// look returns what the caches and own, the copy that work is to be done on, show of a root.
func (s *Shard) look(term *shardlease.Term, at address, own metav1.Object) sight {
	begun := s.caches.begun(term, at.resource)
	seen := sight{started: len(begun) > 0, complete: true, stale: true}
	newest := own
	for _, i := range begun {
		o := i.copyOf(at)
		if o == nil {
			seen.complete = seen.complete && i.shows(own.GetResourceVersion())
			continue
		}
		seen.found = true
		seen.stale = seen.stale && newer(o, own)
		if !newer(newest, o) {
			newest = o
		}
	}
	seen.stale = seen.stale && seen.found
	if seen.found {
		seen.standing, seen.version = s.claimant(term).standing(newest), newest.GetResourceVersion()
	}
	return seen
}

// passed reports whether every cache that work in this term looks at has reached a version.
func (s *Shard) passed(term *shardlease.Term, at address, floor string) bool {
	for _, i := range s.caches.begun(term, at.resource) {
		if !reaches(i.progress(), floor) {
			return false
		}
	}
	return true
}

// newer reports whether a is known to be newer than b.
func newer(a, b metav1.Object) bool {
	order, known := compareVersions(a.GetResourceVersion(), b.GetResourceVersion())
	return known && order > 0
}
