// Package probe asks a function of the user's, such as a health check, which may never return.
package probe

import (
	"context"
	"errors"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

var (
	// ErrHangs is the answer while an earlier call has not returned.
	ErrHangs = errors.New("an earlier call has not returned")

	errAborted = errors.New("it did not return normally")
)

// Probe calls one function at a time, and waits for its answer only so long. The zero value is ready. It is
// not for concurrent use.
type Probe struct {
	overdue <-chan struct{} // closed when the call returns that was given up; nil: there is none
}

// Ask calls ask, and waits for its answer until ctx ends or for wait, by c. Then it returns the cause. A
// later answer to that call is not used: it may have been true only then. Until that call has returned
// there is no other, and the answer is [ErrHangs]. So a function that hangs costs one goroutine, however
// often it is asked.
func (p *Probe) Ask(ctx context.Context, c clock.Clock, wait time.Duration, ask func(context.Context) error) error {
	if p.overdue != nil {
		select {
		case <-p.overdue:
			p.overdue = nil
		default:
			return ErrHangs
		}
	}
	bounded, cancel := clock.WithTimeout(ctx, c, wait)
	defer cancel()
	returned := make(chan struct{})
	answer := errAborted
	go func() {
		defer close(returned) // also if the call ends by runtime.Goexit
		answer = ask(bounded)
	}()
	select {
	case <-returned:
	case <-bounded.Done():
		p.overdue = returned
		return context.Cause(bounded)
	}
	if answer != nil && bounded.Err() != nil { // the cause says more than "context canceled"
		return context.Cause(bounded)
	}
	return answer
}
