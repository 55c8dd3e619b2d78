package fencejobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// window is the time in which a command may be sent, by the wall clocks of the controller and of
// the pod's node.
type window struct {
	// Opens is when the caller has requested it.
	Opens time.Time `json:"opens"`
	// Closes is when it must have been sent.
	Closes time.Time `json:"closes"`
	// Ends is when all its processes must be dead.
	Ends time.Time `json:"ends"`
	// Skew is the maximum difference of the clocks.
	Skew time.Duration `json:"skew"`
}

// errLate means that no time is left to begin.
var errLate = errors.New("too little time is left to begin")

// open returns the window of a call with this timeout and this time left. A process that was
// stopped since the call began has less time left, and gets no more.
func open(now time.Time, left, timeout time.Duration, c Config) (window, error) {
	now = now.Round(0).UTC()
	left = min(left, timeout)
	w := window{Opens: now.Add(left - timeout), Ends: now.Add(left - c.ClockSkew), Skew: c.ClockSkew}
	w.Closes = w.Opens.Add(c.StartWithin)
	if w.Closes.After(w.Ends) {
		w.Closes = w.Ends
	}
	if !w.Closes.After(now) {
		return window{}, fmt.Errorf(
			"%w: the call had %v, %v of that are left, and clocks may differ by %v",
			errLate,
			timeout,
			left,
			c.ClockSkew,
		)
	}
	return w, nil
}

// refusal returns why nothing may begin any more on a node where the request was mounted at this
// time.
func (w window) refusal(now, mounted time.Time) error {
	age := now.Sub(mounted)
	switch {
	case !now.Before(w.Closes):
		return fmt.Errorf("it is %v too late by this node's clock", now.Sub(w.Closes).Round(time.Millisecond))
	case now.Before(w.Opens.Add(-w.Skew)):
		return fmt.Errorf(
			"this node's clock is %v behind: it has not been asked for yet",
			w.Opens.Sub(now).Round(time.Millisecond),
		)
	case age > w.Closes.Sub(w.Opens): // by any clock
		return fmt.Errorf("the pod was given it %v ago, which is too long", age.Round(time.Millisecond))
	case age < -w.Skew:
		return fmt.Errorf("this node's clock was set back by %v since the pod was given it",
			-age.Round(time.Millisecond))
	}
	return nil
}

// fresh returns nil if a reading was taken after the request, and at most atMost ago.
func (w window) fresh(now, began, ended time.Time, atMost time.Duration) error {
	switch {
	case began.Before(w.Opens.Add(-w.Skew)):
		return fmt.Errorf("it was read %v before it was asked for", w.Opens.Sub(began).Round(time.Millisecond))
	case now.Sub(ended) > atMost+w.Skew:
		return fmt.Errorf("it was read %v ago, which is too long", now.Sub(ended).Round(time.Millisecond))
	case ended.Sub(now) > w.Skew:
		return fmt.Errorf("it says that it was read %v later than now", ended.Sub(now).Round(time.Millisecond))
	}
	return nil
}

// left returns the rest of a call's time, by the clock that shows less, because one stops while the
// machine is suspended and the other may be set.
func left(ctx context.Context, now time.Time, timeout time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return timeout
	}
	return min(timeout, deadline.Sub(now), deadline.Round(0).Sub(now.Round(0)))
}
