package fresh

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

const (
	// minHold and maxHold bound for how long a list waits on standby at once, at random.
	minHold, maxHold = 10 * time.Second, time.Minute
	// promptly is how long a list of one object may take if the API server can take another list of all.
	promptly = time.Second
	// maxBusy is after how long a slow API server is not asked again: a list waits no longer than 6 min.
	maxBusy = 5*time.Minute - promptly
	// minRefused and maxRefused bound the pause after a connection that was refused.
	minRefused, maxRefused = time.Second, 5 * time.Second
)

// hold keeps an informer from listing again on standby. An API server that has restarted ends the
// watches of all informers, and would otherwise list everything for each standby while the work of
// the leaders waits for their lists.
type hold struct {
	mu     sync.Mutex
	listed bool                         // guarded by mu: the informer has listed once
	spared bool                         // guarded by mu: the next list is another form of one that has waited
	terms  map[<-chan struct{}]struct{} // guarded by mu: that need the cache; each is closed at the term's end
	begun  chan struct{}                // guarded by mu: closed when another one begins
}

func newHold() *hold {
	return &hold{terms: map[<-chan struct{}]struct{}{}, begun: make(chan struct{})}
}

// end ends the hold while the term of ctx lasts or, if ctx belongs to no term, for good, because it
// is then unknown how long the cache is needed.
func (h *hold) end(ctx context.Context) {
	over, _ := handover.TermOf(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	h.terms[over] = struct{}{}
	close(h.begun)
	h.begun = make(chan struct{})
}

// forget forgets the terms that are over. The caller holds mu.
func (h *hold) forget() {
	maps.DeleteFunc(h.terms, func(over <-chan struct{}, _ struct{}) bool { return closed(over) })
}

// note notes the version that a request of the informer names. Before its first list, it knows none.
func (h *hold) note(version string) {
	if version != "" && version != "0" {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.listed = true
	}
}

// noteAnswer notes the answer to a list that has waited. If the API server does not accept its form,
// client-go sends it in another one at once: not streamed, or without a version.
func (h *hold) noteAnswer(err error) {
	var status apierrors.APIStatus
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spared = errors.As(err, &status) && kube.Stated(err) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsTooManyRequests(err)
}

// enter reports whether a list with this context need not wait, and returns what ends the wait.
func (h *hold) enter(ctx context.Context) (free bool, begun <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
	over, ofTerm := handover.TermOf(ctx)
	free = !h.listed || h.spared || len(h.terms) > 0 || ofTerm && !closed(over)
	h.spared = false
	return free, h.begun
}

// await waits, on standby, for a random time, and as long again while an API server is slow. It
// reports false if ctx ends.
func (r *Relister) await(ctx context.Context) bool {
	free, begun := r.hold.enter(ctx)
	for began := time.Now(); !free; {
		if !pause(ctx, begun, minHold, maxHold) {
			return false
		}
		free = closed(begun) || time.Since(began) > maxBusy || r.prompt(ctx, begun)
	}
	return ctx.Err() == nil
}

// prompt reports whether the API server answers promptly. It returns when begun is closed.
func (r *Relister) prompt(ctx context.Context, begun <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, promptly)
	var ending sync.WaitGroup
	defer ending.Wait()
	defer cancel()
	ending.Go(func() {
		select {
		case <-begun:
			cancel()
		case <-ctx.Done():
		}
	})
	_, err := r.source.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	return err == nil
}

// next returns what is closed when another term begins.
func (h *hold) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// pause waits for a random time, or until begun is closed. It reports false if ctx ends.
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

// closed reports whether c is closed. If it is nil, it never is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// send sends a request of the informer. One that lists everything waits before it is sent. While
// connections are refused, it is sent again: client-go would pause for up to a minute, which the
// begin of a term could not end.
func send[T any](
	ctx context.Context, r *Relister, everything bool, request func(context.Context) (T, error),
) (answer T, err error) {
	for {
		begun := r.hold.next()
		if everything && !r.await(ctx) {
			return answer, context.Cause(ctx)
		}
		answer, err = request(ctx)
		if everything {
			r.hold.noteAnswer(err)
		}
		if !utilnet.IsConnectionRefused(err) || !pause(ctx, begun, minRefused, maxRefused) {
			return answer, err
		}
	}
}
