package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// openRequests are those that may still be carried out: they have no answer yet, or failed without one.
type openRequests struct {
	mu        sync.Mutex
	flying    int           // those without an answer
	abandoned []abandoned   // those that failed without one
	landed    chan struct{} // closed when flying is zero; nil until it is waited for
}

// abandoned is a request of which it is not known whether it was carried out, or will be. It had arrived
// when it failed, if ever: that it was sent may be long before, where connections are slow.
type abandoned struct {
	failed clock.Reading
	bound  time.Duration // how long the API server tries
}

// serverTimeout is for how long an API server tries to carry out a request that does not say for how
// long: its default.
const serverTimeout = time.Minute

// begin counts a request that is about to be sent.
func (o *openRequests) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying++
}

// answer notes that a request has its answer, or that it was abandoned.
func (o *openRequests) answer(without ...abandoned) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned = append(o.abandoned, without...)
	o.flying--
	if o.flying == 0 && o.landed != nil {
		close(o.landed)
		o.landed = nil
	}
}

// rest is how long abandoned requests may still be carried out, a margin included, and what is closed when
// all others have an answer; nil if they have.
func (o *openRequests) rest(now clock.Reading, margin time.Duration) (wait time.Duration, landed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := func(a abandoned) time.Duration { return a.bound + margin - now.SinceAtLeast(a.failed) }
	o.abandoned = slices.DeleteFunc(o.abandoned, func(a abandoned) bool { return left(a) <= 0 })
	for _, a := range o.abandoned {
		wait = max(wait, left(a))
	}
	if o.flying > 0 {
		if o.landed == nil {
			o.landed = make(chan struct{})
		}
		landed = o.landed
	}
	return wait, landed
}
