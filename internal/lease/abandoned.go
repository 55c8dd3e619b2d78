package lease

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// abandoned is a guarded request of a [Scope] that failed without an answer: of all such, the one that the API
// server may try longest. The zero value is none.
//
// It counts from the failure, not from when the request was sent: where connections are slow, a
// request may arrive long after that.
type abandoned struct {
	failed clock.Reading
	bound  time.Duration // how long the API server tries, from when it has received the request
}

// add takes in a request that has failed now.
func (a *abandoned) add(now clock.Reading, bound time.Duration) {
	if bound > a.bound-now.SinceAtLeast(a.failed) {
		*a = abandoned{now, bound}
	}
}

// openFor is for how long the request may still be carried out: until a margin after the API server
// has given up. It is not positive if there is none.
func (a abandoned) openFor(now clock.Reading, margin time.Duration) time.Duration {
	if a.bound == 0 {
		return 0
	}
	return a.bound + margin - now.SinceAtLeast(a.failed)
}
