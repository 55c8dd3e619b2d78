package shard

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// idleAfter is how long a shard may run without an informer of a resource, because programs take a
// while to start.
const idleAfter = time.Minute

const (
	noInformer = "this shard gets objects of a resource of the ring, and runs no informer of it: nothing works on them"
	noneAtAll  = "this shard runs no informer of any resource of the ring, and gets no objects: nothing would work " +
		"on them"
	notAsked = "no reconciler of this resource asks the shard before it works: wrap it by WrapReconciler of module " +
		"controllerruntime, or call Shard.Do or RunController"
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
		case s.asked[r.GVR].missing():
			errs = append(errs, fmt.Errorf("shard: %s: %s", name, notAsked))
		case s.idle(r.GVR, term, time.Now()):
			errs = append(errs, fmt.Errorf("shard: %s: %s", name, s.whyIdle()))
		}
	}
	return errors.Join(errs...)
}

func (s *Shard) whyIdle() string {
	if s.caches.idle() {
		return noneAtAll
	}
	return noInformer
}

// idle reports whether a resource has had no informer for too long, and logs that once. The caller
// holds idleMu.
func (s *Shard) idle(resource schema.GroupVersionResource, term *shardlease.Term, now time.Time) bool {
	i := s.idleSince[resource]
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
	s.idleSince[resource] = i
	return late
}
