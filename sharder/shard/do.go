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

// Do calls work if this shard may work on obj, and returns what work returns. No other process executes Do for the same object at that
// time, nor for its root or another child of that, whatever happens to the two. Otherwise it returns, and nothing has been done:
//
//   - an [ErrNotMine] if obj is not this shard's, or gone: drop it;
//   - an [ErrNotYet] if it may be so soon: try again later, because no event need follow;
//   - an [ErrUnguarded], or an error that names obj's kind, if that will never be possible.
//
// obj is a copy from a cache of [Shard.NewInformer], or a newer one; of a copy that is older than what the caches show, Do says
// ErrNotYet. Several controllers of a process may work on one object at a time; the shard lets go of it when all of them have
// returned.
//
// For a child, the shard of its root may work on it, and so work on a child is work on its root. Work begins only when all running caches
// of children show what the shard from which the root came has created.
//
// work's context is derived from ctx. It also ends, with an ErrLost of package shardlease as its cause, when the lease is
// lost, and with [ErrDrained] when another shard is to have the object and [ShardConfig].AckGrace is over. It has to be the context of
// every request of work that changes something: of such a request without an answer, a shard knows that it must not let go
// of the object yet. Work that leaves a goroutine behind when it returns is not protected: requests with work's context fail from
// then on, others are sent.
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
	p := &workItem{at: at, term: term, scope: scope, cancel: cancel}
	if err := s.tracker.admit(p, func() cacheState { return s.cacheStateOf(term, q) }); err != nil {
		scope.End()
		return s.refused(at, err)
	}
	defer func() { // also if work panics
		scope.End()
		if s.tracker.leave(p, scope.Open()) {
			s.wakeAcknowledger(at)
		}
		s.tracker.forgetEnded()
	}()
	if err := term.Err(); err != nil { // the last question: the process may have been stopped at any of those before
		return s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, err))
	}
	return work(ctx)
}

// workRequest is what Do is asked for.
type workRequest struct {
	// at is the root that decides, and children are the resources of its children.
	at             protocol.Address
	childResources []schema.GroupVersionResource
	// own is the copy that work is to be done on: of the root, or of a child of it, which is at child then.
	own   metav1.Object
	child protocol.Address
}

// forChild reports whether own is a child.
func (q workRequest) forChild() bool { return q.child != protocol.Address{} }

// admissible answers the questions for which neither the custody nor a cache has to be asked.
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
	if ctx.Err() != nil {
		return workRequest{}, s.refused(q.at, fmt.Errorf("%w: %w", ErrNotMine, context.Cause(ctx)))
	}
	return q, nil
}

func (s *Shard) refused(at protocol.Address, err error) error {
	s.config.Hooks.refused(at, err)
	if errors.Is(err, errNoCache) {
		if _, said := s.cacheless.LoadOrStore(at.Resource, true); !said {
			s.config.Logger.Warn("work is refused, and stays so if no such cache comes", zap.Stringer("object", at), zap.Error(err))
		}
	}
	return err
}
