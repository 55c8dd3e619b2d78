package shard

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// caches are the shard's running informers, and its informers of children that may not run yet.
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
	c.running[i.resource] = slices.DeleteFunc(c.running[i.resource], func(other *informer) bool { return other == i })
}

// has reports whether an informer of a resource runs.
func (c *caches) has(resource schema.GroupVersionResource) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.running[resource]) > 0
}

// begun returns the caches that cover a resource in a namespace and count in this term. Other caches
// may be older than the term.
func (c *caches) begun(term *shardlease.Term, resource schema.GroupVersionResource, namespace string) []*informer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	begun := make([]*informer, 0, len(c.running[resource]))
	for _, i := range c.running[resource] {
		if i.covers(namespace) && i.began() == term {
			begun = append(begun, i)
		}
	}
	return begun
}

// joining reports whether there are caches that cover a resource in a namespace, and do not count in
// this term yet.
func (c *caches) joining(term *shardlease.Term, resource schema.GroupVersionResource, namespace string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.ContainsFunc(c.running[resource], func(i *informer) bool {
		return i.covers(namespace) && i.began() != term
	})
}

// newest returns the newest cached copy of a root, or nil if no cache has one.
func (s *Shard) newest(term *shardlease.Term, at protocol.Address) (newest metav1.Object) {
	for _, i := range s.caches.begun(term, at.Resource, at.Namespace) {
		if o := i.copyOf(at); o != nil && (newest == nil || newer(o, newest)) {
			newest = o
		}
	}
	return newest
}

// cacheStateOf returns what the caches show of a root, and of the copy for the work.
func (s *Shard) cacheStateOf(term *shardlease.Term, q workRequest) cacheState {
	begun := s.caches.begun(term, q.at.Resource, q.at.Namespace)
	seen := cacheState{started: len(begun) > 0, complete: true}
	seen.joining = !seen.started && s.caches.joining(term, q.at.Resource, q.at.Namespace)
	var newest metav1.Object
	if q.forChild() {
		seen.child = true
		// the caches will show its root, or stop showing the child
		seen.complete = s.keys.ShardOf(q.own) != s.lease.Identity()
		var child metav1.Object
		child, seen.stale = newestCopy(s.caches.begun(term, q.child.Resource, q.child.Namespace), q.child, q.own)
		if child == nil || !newer(child, q.own) {
			child = q.own
		}
		seen.stale = seen.stale || !s.sameRoot(q.child.Resource, child, q.own)
		label := s.keys.ShardOf(child)
		seen.elsewhere = label != "" && label != s.lease.Identity() || s.keys.Draining(child)
		newest = s.newest(term, q.at)
		seen.found = newest != nil
	} else {
		for _, i := range begun {
			seen.complete = seen.complete && (i.copyOf(q.at) != nil || i.shows(q.own.GetResourceVersion()))
		}
		newest, seen.stale = newestCopy(begun, q.at, q.own)
		seen.found = newest != nil
		if seen.found && newer(q.own, newest) {
			newest = q.own
		}
	}
	if !seen.found {
		return seen
	}
	var r protocol.Record
	seen.assignment, r = s.self(term, q.at.Resource).Read(newest)
	seen.version = newest.GetResourceVersion()
	if !q.forChild() && newer(newest, q.own) {
		// The copy may be from before the assignment: one cache can be behind another.
		seen.version = q.own.GetResourceVersion()
		seen.stale = seen.stale || s.self(term, q.at.Resource).AssignmentOf(q.own) != protocol.AssignedHere
	}
	if seen.assignment == protocol.AssignedHere && len(q.childResources) > 0 {
		seen.behind = s.caches.lagging(term, q.childResources, q.at, r)
	}
	return seen
}

// newestCopy returns the newest copy of an object in these caches, or nil if they have none. stale
// means that own is older than every copy in them.
func newestCopy(caches []*informer, at protocol.Address, own metav1.Object) (newest metav1.Object, stale bool) {
	stale = true
	for _, i := range caches {
		o := i.copyOf(at)
		if o == nil {
			continue
		}
		stale = stale && newer(o, own)
		if newest == nil || newer(o, newest) {
			newest = o
		}
	}
	return newest, stale && newest != nil
}

// lagging returns a resource of children, if any, whose cache does not yet show what work on a root
// with this record requires. A resource without a cache is not behind, because a cache that starts
// during work lists after the admission.
func (c *caches) lagging(
	term *shardlease.Term, children []schema.GroupVersionResource, root protocol.Address, r protocol.Record,
) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, resource := range children {
		name := resource.GroupResource().String()
		for _, i := range c.running[resource] {
			if !i.covers(root.Namespace) {
				continue
			}
			if floor, known := r.ChildFloor[name]; !known || i.began() != term || !i.complete(floor) {
				return name
			}
			if i.mayShowDeleted(root.UID, r.Childless[name]) {
				return name
			}
		}
	}
	return ""
}

// cachesReached reports whether every cache of the root that counts in this term has reached a
// version.
func (s *Shard) cachesReached(term *shardlease.Term, at protocol.Address, floor string) bool {
	return !slices.ContainsFunc(s.caches.begun(term, at.Resource, at.Namespace), func(i *informer) bool {
		return !protocol.Reaches(i.progress(), floor)
	})
}

// sameRoot reports whether two copies of a child of this resource name the same root.
func (s *Shard) sameRoot(resource schema.GroupVersionResource, a, b metav1.Object) bool {
	_, ofA, errA := s.rootOf(resource, a)
	_, ofB, errB := s.rootOf(resource, b)
	return errA == nil && errB == nil && ofA.UID == ofB.UID
}

// newer reports whether a is known to be newer than b.
func newer(a, b metav1.Object) bool {
	order, known := protocol.CompareVersions(a.GetResourceVersion(), b.GetResourceVersion())
	return known && order > 0
}
