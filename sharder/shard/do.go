package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is any object of the Kubernetes API. controller-runtime's client.Object is one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Do calls work if this shard may work on obj, and returns the result of work. Meanwhile no other
// process executes Do for obj, its root or another child of that root, whatever happens to the two
// processes. Otherwise Do returns one of these errors, without calling work:
//
//   - an [ErrNotMine] if obj is not this shard's, or is gone: drop it;
//   - an [ErrNotYet] if it may be this shard's soon: try again later, because an event need not
//     follow;
//   - an [ErrUnguarded], or an error that names obj's kind, if work will never be possible.
//
// obj is a copy from a cache of [Shard.NewInformer], or a newer one. If it is older than the copies
// in the caches, Do returns ErrNotYet. Several controllers of a process may work on one object at a
// time; the shard lets go of it when all of them have returned.
//
// The shard of the root may work on a child, and work on a child counts as work on its root. Work
// begins only when all running caches of children show what the root's former shard created. A
// child that gets another root goes to the shard of that root when work on the child has ended,
// unless that root moves just then. Work on the former root may continue, so it must check whose
// child it is before it touches one.
//
// work's context is derived from ctx. It also ends when the lease is lost, with an ErrLost of
// package shardlease as its cause, and with [ErrDrained] when the object must move to another shard
// and [Config].AckGrace is over. Every request of work that changes something must use this
// context, because the shard does not let go of the object while such a request has no answer. A
// goroutine that outlives work is not protected: its requests with work's context fail, but its
// other requests are sent.
func (s *Shard) Do(ctx context.Context, obj Object, work func(ctx context.Context) error) error {
	q, err := s.admissible(ctx, obj)
	if err != nil {
		return err
	}
	at := q.at
	term, err := s.lease.Term()
	if err != nil {
		return s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, err))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, scope := term.Scope(ctx)
	p := &workItem{at: at, child: q.child, term: term, scope: scope, cancel: cancel}
	if err := s.tracker.admit(p, func() cacheState { return s.cacheStateOf(term, q) }); err != nil {
		scope.End()
		return s.refused(at, err)
	}
	defer func() { // even if work panics
		scope.End()
		if s.tracker.leave(p, scope.Open()) {
			s.wakeAcknowledger(at)
		}
		s.tracker.forgetEnded()
	}()
	defer term.Begin(at.UID)()
	if err := term.Err(); err != nil { // last, because the process may have been suspended before
		return s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, err))
	}
	return work(ctx)
}

// workRequest describes a call of Do.
type workRequest struct {
	// at is the root, whose assignment decides. childResources are the resources of its children.
	at             protocol.Address
	childResources []schema.GroupVersionResource
	// own is the copy for the work: of the root, or of a child at the address child.
	own   metav1.Object
	child protocol.Address
}

// forChild reports whether own is a child.
func (q workRequest) forChild() bool { return q.child != protocol.Address{} }

// admissible checks what depends on neither the work tracker nor a cache.
func (s *Shard) admissible(ctx context.Context, obj Object) (workRequest, error) {
	if !s.config.Unguarded && !s.lease.Guarded() {
		return workRequest{}, ErrUnguarded
	}
	k, err := s.roleOf(obj)
	if err != nil {
		return workRequest{}, err
	}
	q := workRequest{at: protocol.AddressOf(k.Resource, obj), childResources: k.ChildResources, own: obj}
	if k.Child {
		q.child = q.at
		root, at, err := s.rootOf(k.Resource, obj)
		if err != nil {
			return workRequest{}, s.refused(q.child, fmt.Errorf("%w: %w (%s)", ErrNotMine, err, q.child))
		}
		q.at, q.childResources = at, root.ChildResources
	}
	s.roots[q.at.Resource].asked.note()
	if ctx.Err() != nil {
		return workRequest{}, s.refused(q.at, fmt.Errorf("%w: %w", ErrNotMine, context.Cause(ctx)))
	}
	return q, nil
}

func (s *Shard) refused(at protocol.Address, err error) error {
	s.config.Hooks.refused(at, err)
	if errors.Is(err, errNoCache) {
		s.warnOnce("work is refused, and stays so if no such cache comes", at.Resource.GroupResource(),
			zap.Stringer("object", at), zap.Error(err))
	}
	return err
}
