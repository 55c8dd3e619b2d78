package shard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// idleAfter is how long a shard may run without an informer of a resource, because programs take a
// while to start.
const idleAfter = time.Minute

const (
	noInformer = "this shard gets objects of a resource of the ring, and runs no informer of it: nothing works on them"
	noneAtAll  = "this shard runs no informer of any resource of the ring, and gets no objects: nothing would work " +
		"on them"
	notAsked = "nothing asks the shard about objects of this resource: wrap the reconciler by WrapReconciler of " +
		"module controllerruntime, or call Shard.Do or RunController; behind a proxy, let the program use its address"
)

// idleness is since when a resource has had no informer, as far as Check has seen.
type idleness struct {
	term  *shardlease.Term // another one begins again; nil with an informer
	since time.Time
	said  bool
}

// Check is a readiness check with the signature of controller-runtime's healthz.Checker. While this
// process holds the shard's lease, it returns an error for each resource of the ring whose objects
// this process gets but does not work on: because it has run no informer of the resource for a
// minute, for example if the controller was not set up or the manager has its own election, or
// because for a minute or two nothing has called Do for the objects that an informer shows. The
// first error for a resource is logged as a warning. The minute begins with the first call in which
// the informer is missing, so call it at least every 30 s, as package replica does. It returns at
// once, sends no request, and ignores its argument. Do not use it for a liveness probe, because a
// restart does not help.
func (s *Shard) Check(*http.Request) error {
	term, err := s.lease.Term()
	if err != nil {
		return nil // it gets no objects
	}
	var errs []error
	s.idleMu.Lock()
	defer s.idleMu.Unlock()
	for _, r := range s.config.Resources {
		name := r.GVR.GroupResource().String()
		switch {
		case s.roots[r.GVR].asked.missing():
			errs = append(errs, fmt.Errorf("shard: %s: %s", name, notAsked))
		case s.idle(r.GVR, term, time.Now()):
			errs = append(errs, fmt.Errorf("shard: %s: %s", name, s.whyIdle()))
		}
	}
	return errors.Join(errs...)
}

func (s *Shard) whyIdle() string {
	if !s.used.Load() {
		return noneAtAll
	}
	return noInformer
}

// idle reports whether a resource has had no informer for too long, and logs that once. The caller
// holds idleMu.
func (s *Shard) idle(resource schema.GroupVersionResource, term *shardlease.Term, now time.Time) bool {
	i := &s.roots[resource].idle
	switch {
	case s.caches.has(resource) || !s.kinds.has(resource): // or the API server does not serve it yet
		i.term = nil
	case i.term != term:
		i.term, i.since = term, now
	}
	late := i.term != nil && now.Sub(i.since) >= idleAfter
	if late && !i.said {
		i.said = true
		s.config.Logger.Warn(s.whyIdle(), zap.String("resource", resource.GroupResource().String()))
	}
	return late
}

// unaskedInterval is how often an informer checks whether work has asked the shard. Two checks in a
// row must find objects of the shard, so controllers have at least that long to start.
const unaskedInterval = time.Minute

// asked records whether work on objects of a resource asks the shard.
type asked struct{ yes, warned atomic.Bool }

// note records that it does, without a write for each piece of work, which would make the workers
// wait for each other.
func (a *asked) note() {
	if !a.yes.Load() {
		a.yes.Store(true)
	}
}

// missing reports whether a warning was logged, and nothing has asked since.
func (a *asked) missing() bool { return a.warned.Load() && !a.yes.Load() }

// NoteList records that a program lists or watches the objects of this shard through a proxy, which calls Do for each
// write. Check then expects no call of Do for the resource, because the program may have nothing to write.
func (s *Shard) NoteList(resource schema.GroupResource) {
	for at, root := range s.roots {
		if at.GroupResource() == resource {
			root.asked.note()
		}
	}
}

// warnIfUnasked warns, once for a resource, if the informer shows objects of this shard and nothing
// calls Do for any of them. A reconciler that is not wrapped works as always, but other shards may
// work on the same objects.
func (i *informer) warnIfUnasked(ctx context.Context) {
	asked := &i.shard.roots[i.resource].asked
	for before := false; clock.Sleep(ctx, unaskedInterval); {
		if asked.yes.Load() {
			return
		}
		now := i.showsAssigned()
		if !before || !now {
			before = now
			continue
		}
		if !asked.warned.Swap(true) {
			i.shard.config.Logger.Warn(notAsked, zap.String("resource", i.resource.GroupResource().String()))
		}
		return
	}
}

// showsAssigned reports whether the cache has an object that the shard may work on.
func (i *informer) showsAssigned() bool {
	term := i.began()
	if term == nil {
		return false
	}
	self := i.shard.self(term, i.resource)
	return slices.ContainsFunc(i.GetStore().List(), func(item any) bool {
		o, ok := item.(metav1.Object)
		return ok && self.AssignmentOf(o) == protocol.AssignedHere
	})
}

// warnOfWrites warns, once for a resource of the ring or of children, of a write outside of work.
// If another controller of the resource asks the shard, warnIfUnasked does not find the one that
// does not.
func (s *Shard) warnOfWrites(resource schema.GroupResource) {
	if s.writable[resource] {
		s.warnOnce("an object of the ring was written outside of Shard.Do: one of the reconcilers is not "+
			"wrapped, or does not pass its context to the write", resource, zap.Stringer("resource", resource))
	}
}
