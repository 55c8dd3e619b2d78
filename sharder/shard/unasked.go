package shard

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

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

// warnIfUnasked warns, once for a resource, if the informer shows objects of this shard and nothing
// calls Do for any of them. A reconciler that is not wrapped works as always, but other shards may
// work on the same objects.
func (i *informer) warnIfUnasked(ctx context.Context) {
	asked := i.shard.asked[i.resource]
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
	if !s.writable[resource] {
		return
	}
	if _, said := s.written.LoadOrStore(resource, true); !said {
		s.config.Logger.Warn("an object of the ring was written outside of Shard.Do: one of the reconcilers is not "+
			"wrapped, or does not pass its context to the write", zap.Stringer("resource", resource))
	}
}
