package sharder

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any object of the Kubernetes API. controller-runtime's client.Object is one.
type Object interface {
	metav1.Object
	runtime.Object
}

// Do calls work if this shard may work on obj, and returns what work returns. No other process executes Do for the same object at that
// time, whatever happens to the two. Otherwise it returns, and nothing has been done:
//
//   - an [ErrNotMine] if obj is not this shard's, or gone: drop it;
//   - an [ErrNotYet] if it may be so soon: try again later, because no event need follow;
//   - an [ErrUnguarded], or an error that names obj's kind, if that will never be possible.
//
// obj is a copy from a cache of [Shard.NewInformer], or a newer one; of a copy that is older than what the caches show, Do says
// ErrNotYet. Several controllers of a process may work on one object at a time; the shard lets go of it when all of them have
// returned.
//
// work's context is derived from ctx. It also ends, with an ErrLost of package shardlease as its cause, when the lease is
// lost, and with [ErrDrained] when another shard is to have the object and [ShardConfig].AckGrace is over. It has to be the context of
// every request of work that changes something: of such a request without an answer, a shard knows that it must not let go
// of the object yet. Work that leaves a goroutine behind when it returns is not protected: requests with work's context fail from
// then on, others are sent.
func (s *Shard) Do(ctx context.Context, obj Object, work func(ctx context.Context) error) error {
	at, err := s.admissible(ctx, obj)
	if err != nil {
		return err
	}
	term, err := s.lease.Term()
	if err != nil {
		return s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, err))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, scope := term.Scope(ctx)
	p := &piece{at: at, term: term, scope: scope, cancel: cancel}
	if err := s.custody.admit(p, func() sight { return s.look(term, at, obj) }); err != nil {
		scope.End()
		return s.refused(at, err)
	}
	defer func() { // also if work panics
		scope.End()
		if s.custody.leave(p, scope.Open()) {
			s.poke(at)
		}
		s.custody.forgetEnded()
	}()
	if err := term.Err(); err != nil { // the last question: the process may have been stopped at any of those before
		return s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, err))
	}
	return work(ctx)
}

// admissible answers the questions for which neither the custody nor a cache has to be asked.
func (s *Shard) admissible(ctx context.Context, obj Object) (address, error) {
	if !s.config.Unguarded && !s.lease.Guarded() {
		return address{}, ErrUnguarded
	}
	resource, err := s.resourceOf(obj)
	if err != nil {
		return address{}, err
	}
	at := addressOf(resource, obj)
	if ctx.Err() != nil {
		return address{}, s.refused(at, fmt.Errorf("%w: %w", ErrNotMine, context.Cause(ctx)))
	}
	return at, nil
}

func (s *Shard) refused(at address, err error) error {
	s.config.Hooks.refused(at, err)
	if errors.Is(err, errNoCache) {
		if _, said := s.cacheless.LoadOrStore(at.resource, true); !said {
			s.config.Logger.Warn("work is refused, and will be", zap.Stringer("object", at), zap.Error(err))
		}
	}
	return err
}
