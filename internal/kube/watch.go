package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Watch opens a watch. No answer within the timeout is an error, but the watch itself may last
// longer. Cancel ctx or call Stop to end it.
func Watch(ctx context.Context, c clock.Clock, timeout time.Duration,
	open func(context.Context) (watch.Interface, error),
) (watch.Interface, error) {
	own, cancel := context.WithCancel(ctx)
	late := c.AfterFunc(timeout, cancel)
	w, err := open(own)
	if !late.Stop() && own.Err() != nil && ctx.Err() == nil {
		if err == nil {
			w.Stop()
		}
		err = fmt.Errorf("no answer for %v: %w", timeout, context.DeadlineExceeded)
	}
	if err != nil {
		late.Stop()
		cancel()
		return nil, err
	}
	return &stream{w, cancel}, nil
}

// stream releases the context of a watch when it ends.
type stream struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements [watch.Interface].
func (s *stream) Stop() {
	s.Interface.Stop()
	s.cancel()
}
