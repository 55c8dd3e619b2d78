package kube

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Refusals are streaks of requests that the API server did not permit, because RBAC refused them or
// it did not accept the credentials. They are not for concurrent use.
type Refusals struct {
	clock   clock.Clock
	gap     time.Duration
	streaks map[string]streak // by key, such as a verb; until a request is permitted
}

type streak struct{ first, last clock.Reading }

// NewRefusals returns no refusals. Those at most gap apart are one streak.
func NewRefusals(c clock.Clock, gap time.Duration) *Refusals {
	return &Refusals{clock: c, gap: gap, streaks: map[string]streak{}}
}

// Note notes how a request with this key has ended.
func (r *Refusals) Note(key string, refused bool) {
	now := r.clock.Now()
	s, known := r.streaks[key]
	switch {
	case !refused:
		delete(r.streaks, key)
		return
	case !known || now.SinceAtLeast(s.last) > r.gap:
		s.first = now
	}
	r.streaks[key] = streak{s.first, now}
}

// Lasted returns how long requests with this key have been refused; zero if they are not.
func (r *Refusals) Lasted(key string) time.Duration {
	s := r.streaks[key]
	return s.last.SinceAtLeast(s.first)
}

// Forget forgets all refusals.
func (r *Refusals) Forget() { clear(r.streaks) }
