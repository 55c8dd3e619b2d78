package leaderforlife

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

const (
	// withdrawTimeout bounds the clean-up of a candidate that gives up.
	withdrawTimeout = 3 * time.Second
	// lockPause is the pause between attempts to take the process lock of the Pod.
	lockPause = time.Second
)

// candidate is one call of Become.
type candidate struct {
	config   config
	cluster  *cluster
	failures *kube.Failures
	me       podID
	release  func() // releases the process lock
	watches  *watches
	fence    clock.Probe

	abilities abilities
	probed    bool                     // whether our Pod may be patched is known
	wrote     bool                     // this call may have created the lock or labelled our Pod
	owners    map[types.UID]podID      // owners of earlier locks, which may lead without a label
	seen      *lock                    // the lock as last read
	others    map[types.UID]*contender // as of the last reads and later events
	nodes     map[string]nodeState     // of contenders
	reported  []Waiting                // last reported reasons for waiting
	last      step                     // of the previous round
	contact   *kube.Contact

	rightsAsked bool // the log names the missing rights, if the API server could be asked
}

// elect returns once this Pod leads, or an error. end releases the process lock, for tests.
func elect(ctx context.Context, lockName string, options []Option) (end func(), err error) {
	config, err := newConfig(lockName, options)
	if err != nil {
		return nil, err
	}
	k := newCluster(config)
	c := &candidate{
		config: config, cluster: k, failures: k.failures, watches: newWatches(k),
		contact: kube.NewContact(clock.System(), config.hooks.OnFailing),
		owners:  map[types.UID]podID{}, others: map[types.UID]*contender{}, nodes: map[string]nodeState{},
	}
	defer c.watches.close()
	defer c.contact.End()
	err = c.retry(ctx, func() (done bool, err error) {
		c.me, err = c.cluster.whoAmI(ctx)
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	if !c.acquireProcessLock(ctx) {
		return nil, ctx.Err()
	}
	err = c.retry(ctx, func() (led bool, err error) {
		next, err := c.round(ctx)
		return err == nil && next == toLead, err
	})
	if err == nil {
		return c.release, nil
	}
	if c.wrote {
		c.withdraw(ctx)
	}
	c.release()
	return nil, err
}

// acquireProcessLock waits until no other process of this Pod uses this lock. It returns false if
// ctx ends first.
func (c *candidate) acquireProcessLock(ctx context.Context) bool {
	c.release = func() {}
	if !isUUID(c.me.uid) { // a test's UID: tests would wait for one another
		return true
	}
	for ctx.Err() == nil {
		release, err := c.config.processLock("leaderforlife/" + string(c.me.uid) + "/" + c.config.lock)
		switch {
		case err == nil:
			c.release = release
			return true
		case !errors.Is(err, process.ErrLocked):
			c.config.log.Warn("cannot keep a second process of this Pod from leading by the same lock", zap.Error(err))
			return true
		}
		c.cluster.sayOnce("waiting for another process of this Pod, or an earlier call in this process, " +
			"that uses the lock")
		clock.Sleep(ctx, lockPause)
	}
	return false
}

// round reads, decides, and acts once or waits for something new to read.
func (c *candidate) round(ctx context.Context) (step, error) {
	v, err := c.observe(ctx)
	if err != nil {
		return toWait, err
	}
	next, waiting := v.next(c.abilities)
	switch next {
	case toLead:
		c.config.log.Info("this Pod is the leader until it ends", zap.String("lockUID", string(v.lock.uid)))
		if hook := c.config.hooks.OnLeading; hook != nil {
			hook(v.lock.uid)
		}
	case toWait:
		c.last = next
		c.reportWaiting(waiting)
		return next, c.await(ctx, v, waiting)
	default:
		err := c.act(ctx, next, v)
		switch {
		case err != nil:
			c.last = toWait
		case next == c.last:
			err = errNoEffect
		default:
			c.last = next
		}
		return next, err
	}
	return next, nil
}

// errNoEffect is a successful write whose effect does not last, for example because a webhook
// reverts it.
var errNoEffect = errors.New("the API server accepted a label or the lock's creation or deletion, but the effect " +
	"does not last")

// act writes. The next round reads the result.
func (c *candidate) act(ctx context.Context, next step, v state) error {
	switch next {
	case toCreate:
		if !c.probed {
			may, err := c.cluster.mayLabel(ctx, v.me)
			if err != nil {
				return err
			}
			c.abilities.noPatch, c.probed = !may, true
		}
		wrote := c.wrote
		c.wrote = true
		err := c.cluster.createLock(ctx, c.me, !c.abilities.noPatch)
		if alreadyExists(err) { // another Pod created it, or an earlier attempt that set c.wrote
			c.wrote = wrote
		}
		return err
	case toLabel:
		c.wrote = true
		uid := string(v.lock.uid)
		return c.patched(c.cluster.setLabel(ctx, v.me, &uid))
	case toUnlabel:
		return c.patched(c.cluster.setLabel(ctx, v.me, nil))
	case toRemove:
		c.config.log.Info("removing a lock whose owner does not lead", zap.String("pod", v.lock.owner.name),
			zap.String("uid", string(v.lock.owner.uid)))
		err := c.cluster.deleteLock(ctx, *v.lock)
		if c.cluster.missing(err, "without the verb delete on "+c.cluster.kind+", a leader whose Pod has ended "+
			"but is not deleted keeps its lock") {
			c.abilities.noDelete = true
			return nil
		}
		return err
	}
	return nil
}

// patched records whether our Pod may be patched.
func (c *candidate) patched(err error) error {
	if c.cluster.missing(err, withoutPatch) {
		c.abilities.noPatch = true
		return nil
	}
	return err
}

// reportWaiting reports the reasons for waiting if they have changed.
func (c *candidate) reportWaiting(waiting []Waiting) {
	if slices.Equal(waiting, c.reported) {
		return
	}
	c.reported = waiting
	for _, w := range waiting {
		c.config.log.Info("waiting", zap.String("pod", w.Pod), zap.String("uid", string(w.UID)),
			zap.String("node", w.Node), zap.String("why", w.Why))
	}
	if hook := c.config.hooks.OnWaiting; hook != nil {
		hook(slices.Clone(waiting))
	}
}

// withdraw undoes the writes of this call, so that others need not wait for the end of this Pod. It
// is bounded in time, and starts after ctx has ended.
func (c *candidate) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	l, err := c.cluster.lock(ctx)
	if err == nil && l != nil && l.owner == c.me {
		err = c.cluster.deleteLock(ctx, *l)
	}
	if err == nil && !c.abilities.noPatch {
		me, getErr := c.cluster.pod(ctx, c.me.name)
		if err = getErr; err == nil && me != nil && me.UID == c.me.uid && me.Labels[c.cluster.label] != "" {
			err = c.cluster.setLabel(ctx, me, nil)
		}
	}
	if err != nil {
		c.config.log.Warn("gave up, but clean-up failed: others may wait until this Pod has ended", zap.Error(err))
	}
}

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
		return c.cluster.refusedFor(err) >= maxRefusal
	case kube.Unauthorized(err):
		return c.cluster.refused.Lasted(credentials) >= maxRefusal
	case isLostRace(err), errors.Is(err, errNoEffect):
		return false
	}
	return !errors.As(err, new(*kube.RequestError))
}

// noteFailure logs how an attempt has ended, and calls the hook. It logs neither lost races nor
// recent refusals, which [cluster.missing] logs if the verb is optional.
func (c *candidate) noteFailure(err error) {
	if kube.RoleMissing(err) && c.cluster.refusedFor(err) < refusalPatience || isLostRace(err) {
		return
	}
	c.contact.Note(err)
	c.failures.Note("", err, "request failed, retrying", "request succeeds again")
}
