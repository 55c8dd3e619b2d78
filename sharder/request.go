package sharder

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// requestTimeout bounds every request, and the opening of a watch: an answer that was lost on the way never comes, and a client need not
// have a timeout of its own.
const requestTimeout = 30 * time.Second

// bounded sends one request.
func bounded[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// endGrace is how long a write may go on after the end of what it was sent for.
const endGrace = 2 * time.Second

// finished sends one write, which takes at most so long, and goes on for a moment after ctx has ended. One
// that is cut off may be carried out all the same, and the leases under which it was sent are not released
// before the API server has given it up: a roll-out would wait for the expiry of each.
func finished[T any](ctx context.Context, timeout time.Duration, request func(context.Context) (T, error)) (T, error) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(endGrace, cancel) })
	defer stop()
	return request(late)
}

// opened opens a watch. Stop releases what it holds.
func opened(ctx context.Context, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(requestTimeout, cancel)
	w, err := open(ctx)
	if !late.Stop() && ctx.Err() != nil {
		if err == nil {
			w.Stop()
		}
		err = fmt.Errorf("no answer for %v", requestTimeout)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &stream{w, cancel}, nil
}

type stream struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (s *stream) Stop() {
	s.Interface.Stop()
	s.cancel()
}
