package fresh

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

const (
	// minHold and maxHold bound how long an informer waits on standby before it lists again.
	minHold, maxHold = 10 * time.Second, time.Minute
	// minRefused and maxRefused bound the pause after a connection that was refused.
	minRefused, maxRefused = time.Second, 5 * time.Second
)

// hold keeps an informer from listing again on standby. An API server that has restarted ends the
// watches of all informers at once, and would otherwise list everything for each standby while the
// work of the leaders waits for their lists.
type hold struct {
	mu     sync.Mutex
	listed bool                         // guarded by mu: the informer has listed once
	spared bool                         // guarded by mu: the next list stands in for one that has waited
	terms  map[<-chan struct{}]struct{} // guarded by mu: that need the cache; each is closed at the term's end
	begun  chan struct{}                // guarded by mu: closed when another one begins
}

func newHold() *hold {
	return &hold{terms: map[<-chan struct{}]struct{}{}, begun: make(chan struct{})}
}

// end ends the hold while the term of ctx lasts, or for good if ctx belongs to no term, because it
// is then unknown how long the cache is needed.
func (h *hold) end(ctx context.Context) {
	over, _ := handover.TermOf(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.terms, isOver)
	h.terms[over] = struct{}{}
	close(h.begun)
	h.begun = make(chan struct{})
}

// note notes the version that a request of the informer names: it has one only after its first list.
func (h *hold) note(version string) {
	if version != "" && version != "0" {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.listed = true
	}
}

// spare lets the next list pass that is not streamed. client-go sends it in place of a streamed one,
// which has waited.
func (h *hold) spare(next bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spared = next
}

// await waits on standby. It reports false if ctx ends before that.
func (h *hold) await(ctx context.Context) bool {
	h.mu.Lock()
	over, inTerm := handover.TermOf(ctx)
	maps.DeleteFunc(h.terms, isOver)
	free := !h.listed || h.spared || len(h.terms) > 0 || inTerm && !isOver(over, struct{}{})
	h.spared = false
	begun := h.begun
	h.mu.Unlock()
	return free && ctx.Err() == nil || !free && pause(ctx, begun, minHold, maxHold)
}

// rest waits after a refused connection. It reports false if ctx ends before that.
func (h *hold) rest(ctx context.Context) bool {
	h.mu.Lock()
	begun := h.begun
	h.mu.Unlock()
	return pause(ctx, begun, minRefused, maxRefused)
}

// pause waits for a random time, or until begun is closed. It reports false if ctx ends before that.
func pause(ctx context.Context, begun <-chan struct{}, least, most time.Duration) bool {
	timer := time.NewTimer(least + rand.N(most-least))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-begun:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func isOver(over <-chan struct{}, _ struct{}) bool {
	select {
	case <-over: // nil: never
		return true
	default:
		return false
	}
}

// send sends a request of the informer. One that lists everything waits before it is sent. While
// connections are refused, it is sent again: client-go would pause for up to a minute, which the
// begin of a term could not end.
func send[T any](
	ctx context.Context, h *hold, everything bool, request func(context.Context) (T, error),
) (answer T, err error) {
	for {
		if everything && !h.await(ctx) {
			return answer, context.Cause(ctx)
		}
		answer, err = request(ctx)
		if !utilnet.IsConnectionRefused(err) || !h.rest(ctx) {
			return answer, err
		}
	}
}
