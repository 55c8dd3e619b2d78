package leaderforlife

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

const (
	// firstPause is the pause after the first failed request.
	firstPause = 100 * time.Millisecond
	// maxPause bounds the pause, which doubles after each failed request.
	maxPause = 15 * time.Second
	// maxRefusal bounds how long a required request may be refused, while roles may still be
	// created.
	maxRefusal = 15 * time.Second
)

// retry calls f until it is done, with a growing pause after each error. It returns errors that are
// not worth a retry.
func (c *candidate) retry(ctx context.Context, f func() (done bool, err error)) error {
	pause := firstPause
	for ctx.Err() == nil {
		done, err := f()
		switch {
		case done:
			return nil
		case err == nil:
			pause = firstPause
			c.noteFailure(nil)
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		}
		c.sayMissingRights(ctx, err)
		if c.permanent(err) {
			return err
		}
		c.noteFailure(err)
		clock.Sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, maxPause*2/3) // jitter adds at most half
	}
	return ctx.Err()
}

// permanent reports whether retrying cannot help.
func (c *candidate) permanent(err error) bool {
	switch {
	case errors.Is(err, ErrForeignLock), errors.Is(err, ErrPodGone):
		return true
	case kube.RoleMissing(err):
		return c.refusedFor(err) >= maxRefusal
	case kube.Unauthorized(err):
		return c.rejectedFor(err) >= maxRefusal
	case isLostRace(err), errors.Is(err, errNoEffect):
		return false
	}
	var access *accessError
	return !errors.As(err, &access)
}

// noteFailure logs how an attempt has ended, and calls the hook. It logs neither lost races nor
// recent refusals, which [cluster.missing] logs if the verb is optional.
func (c *candidate) noteFailure(err error) {
	if kube.RoleMissing(err) && c.refusedFor(err) < refusalPatience || isLostRace(err) {
		return
	}
	c.contact.Note(err)
	c.failures.Note("", err, "request failed, retrying", "request succeeds again")
}
