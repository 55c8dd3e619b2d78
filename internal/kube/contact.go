package kube

import (
	"fmt"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Contact is how long the API server has not answered a participant as it should. It counts attempts,
// such as to follow, take or renew a lease, and not single requests: a candidate that can read a lease
// but not create it fails.
type Contact struct {
	clock     clock.Clock
	onFailing func(lasted time.Duration, err error)

	mu    sync.Mutex
	since clock.Reading // guarded by mu: of the first failure since the last success
	err   error         // guarded by mu: the last failure; nil after a success
}

// NewContact returns a contact without a failure. onFailing is called after each failure with how long
// they have lasted, and with zero and nil when they are over; it may be nil.
func NewContact(c clock.Clock, onFailing func(lasted time.Duration, err error)) *Contact {
	if onFailing == nil {
		onFailing = func(time.Duration, error) {}
	}
	return &Contact{clock: c, onFailing: onFailing}
}

// Note notes how an attempt has ended.
func (c *Contact) Note(err error) {
	now := c.clock.Now()
	c.mu.Lock()
	before := c.err
	if before == nil {
		c.since = now
	}
	c.err = err
	lasted := now.SinceAtLeast(c.since)
	c.mu.Unlock()
	switch {
	case err != nil:
		c.onFailing(lasted, err)
	case before != nil:
		c.onFailing(0, nil)
	}
}

// End notes that nothing is tried any more.
func (c *Contact) End() { c.Note(nil) }

// Check returns an error if all attempts have failed for at least limit, unless that is zero. The error
// calls them what, such as requests.
func (c *Contact) Check(what string, limit time.Duration) error {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if lasted := now.SinceAtLeast(c.since); c.err != nil && limit > 0 && lasted >= limit {
		return fmt.Errorf("%s have failed for %v: %w", what, lasted.Round(time.Second), c.err)
	}
	return nil
}
