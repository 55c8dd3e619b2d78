package sharder

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// requestTimeout bounds every request, and the opening of a watch. A client need not have a timeout
// of its own, and a lost answer never comes.
const requestTimeout = 30 * time.Second

// bounded sends one request.
func bounded[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// opened opens a watch. Stop releases its resources.
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
