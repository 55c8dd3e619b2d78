package clock

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrHangs is returned while an earlier call has not returned.
	ErrHangs = errors.New("an earlier call has not returned")

	errAborted = errors.New("it did not return normally")
)

// Probe calls a user's function, such as a health check, that may never return. It makes one call at a
// time and bounds the wait for it. The zero value is ready. It is not safe for concurrent use.
type Probe struct {
	overdue <-chan struct{} // closed when the abandoned call returns; nil without such a call
}

// Ask calls ask and waits for its answer until ctx ends, or for wait by c. Then it returns the cause
// and ignores a later answer of that call, which may be outdated. Until that call has returned, Ask
// returns [ErrHangs] without another call, so a function that hangs costs only one goroutine.
func (p *Probe) Ask(ctx context.Context, c Clock, wait time.Duration, ask func(context.Context) error) error {
	if p.overdue != nil {
		select {
		case <-p.overdue:
			p.overdue = nil
		default:
			return ErrHangs
		}
	}
	bounded, cancel := WithTimeout(ctx, c, wait)
	defer cancel()
	returned := make(chan struct{})
	answer := errAborted
	go func() {
		defer close(returned) // even if the call ends by runtime.Goexit
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
