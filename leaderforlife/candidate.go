package leaderforlife

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/probe"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

const (
	// withdrawTimeout bounds the clean-up of a candidate that gives up.
	withdrawTimeout = 3 * time.Second
	// lockPause is the pause between two attempts to get the process lock of the Pod.
	lockPause = time.Second
)

// candidate is one call of Become or TryBecome.
type candidate struct {
	*cluster
	once    bool // wait for nothing
	me      podID
	release func() // of the name that no other process of this Pod has meanwhile
	watches *watches
	fence   probe.Probe

	abilities
	probed bool                     // whether the own Pod may be patched is known
	wrote  bool                     // this call may have created the lock, or labelled the own Pod
	owners map[types.UID]podID      // of earlier locks, of whom no label tells whether they lead
	seen   *lock                    // the lock as last read
	others map[types.UID]*contender // as of the last reads, and of events since
	nodes  map[string]nodeState     // of contenders
	told   []Waiting                // what it waits for, as last told
	last   step                     // of the round before
	failed string                   // the error that was logged last, until all is well again
}

// elect returns when this Pod leads, or does not and will not. end, which tests need, lets another process of the Pod in.
func elect(ctx context.Context, lockName string, options []Option, once bool) (end func(), led bool, err error) {
	config, err := newConfig(lockName, options)
	if err != nil {
		return nil, false, err
	}
	k := newCluster(config)
	c := &candidate{
		cluster: k, once: once, watches: newWatches(k),
		owners: map[types.UID]podID{}, others: map[types.UID]*contender{}, nodes: map[string]nodeState{},
	}
	defer c.watches.close()
	err = c.retry(ctx, func() (done bool, err error) {
		c.me, err = c.whoAmI(ctx)
		return err == nil, err
	})
	if err != nil {
		return nil, false, err
	}
	if !c.acquireProcessLock(ctx) {
		return nil, false, ctx.Err()
	}
	err = c.retry(ctx, func() (done bool, err error) {
		var next step
		next, err = c.round(ctx)
		led = err == nil && next == toLead
		return led || err == nil && next == toWait && once, err
	})
	if led {
		return c.release, true, nil
	}
	if c.wrote {
		c.withdraw(ctx)
	}
	c.release()
	return nil, false, err
}

// acquireProcessLock waits until no other process of this Pod is a candidate or leads by this lock. It returns false if that is not to be waited for.
func (c *candidate) acquireProcessLock(ctx context.Context) bool {
	c.release = func() {}
	if !isUUID(c.me.uid) { // of no API server, but of tests, which would keep each other waiting
		return true
	}
	for ctx.Err() == nil {
		release, err := c.config.processLock("leaderforlife/" + string(c.me.uid) + "/" + c.config.lock)
		switch {
		case err == nil:
			c.release = release
			return true
		case !errors.Is(err, process.ErrLocked):
			c.config.log.Warn("nothing keeps a second process of this Pod from leading by the same lock", zap.Error(err))
			return true
		case c.once:
			return false
		}
		c.sayOnce("waiting for another process of this Pod, or for an earlier call in this one: it leads by this lock, or is a candidate")
		sleep(ctx, lockPause)
	}
	return false
}

// round reads, decides and acts once, or waits until there is something new to read.
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
		c.tell(waiting)
		if !c.once {
			return next, c.await(ctx, v, waiting)
		}
	default:
		err := c.act(ctx, next, v)
		switch {
		case err != nil:
			c.last = toWait
		case next == c.last:
			err = errFutile
		default:
			c.last = next
		}
		return next, err
	}
	return next, nil
}

// errFutile is a request that succeeds, and changes nothing: somebody else changes it back, such as an admission webhook.
var errFutile = errors.New("the API server says that it has labelled the Pod, or made or deleted the lock, but that does not last")

// act writes. Whatever comes of it, the next round reads.
func (c *candidate) act(ctx context.Context, next step, v state) error {
	switch next {
	case toCreate:
		if !c.probed {
			may, err := c.mayLabel(ctx, v.me)
			if err != nil {
				return err
			}
			c.noPatch, c.probed = !may, true
		}
		wrote := c.wrote
		c.wrote = true
		err := c.createLock(ctx, c.me, !c.noPatch)
		if alreadyExists(err) { // it was made by somebody else, or by an earlier attempt, which is noted
			c.wrote = wrote
		}
		return err
	case toLabel:
		c.wrote = true
		uid := string(v.lock.uid)
		return c.patched(c.setLabel(ctx, v.me, &uid))
	case toUnlabel:
		return c.patched(c.setLabel(ctx, v.me, nil))
	case toRemove:
		c.config.log.Info("removing a lock whose owner does not lead", zap.String("pod", v.lock.owner.name), zap.String("uid", string(v.lock.owner.uid)))
		err := c.deleteLock(ctx, *v.lock)
		if c.missing(err, "without the verb delete on "+c.kind+", a leader whose Pod has ended but is still there keeps its lock") {
			c.noDelete = true
			return nil
		}
		return err
	}
	return nil
}

// patched notes that the own Pod may not be patched, if that is so.
func (c *candidate) patched(err error) error {
	if c.missing(err, "without the verb patch on pods, another candidate may not see this Pod lead if its lock is removed before it has ended") {
		c.noPatch = true
		return nil
	}
	return err
}

// tell says what it waits for, if that has changed.
func (c *candidate) tell(waiting []Waiting) {
	if slices.Equal(waiting, c.told) {
		return
	}
	c.told = waiting
	for _, w := range waiting {
		c.config.log.Info("waiting", zap.String("pod", w.Pod), zap.String("uid", string(w.UID)), zap.String("node", w.Node), zap.String("why", w.Why))
	}
	if hook := c.config.hooks.OnWaiting; hook != nil {
		hook(slices.Clone(waiting))
	}
}

// withdraw undoes what this call may have written, so that others need not wait for the end of this Pod. It is bounded in time, and begins
// when ctx has ended.
func (c *candidate) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	l, err := c.lock(ctx)
	if err == nil && l != nil && l.owner == c.me {
		err = c.deleteLock(ctx, *l)
	}
	if err == nil && !c.noPatch {
		me, getErr := c.pod(ctx, c.me.name)
		if err = getErr; err == nil && me != nil && me.UID == c.me.uid && me.Labels[c.label] != "" {
			err = c.setLabel(ctx, me, nil)
		}
	}
	if err != nil {
		c.config.log.Warn("gave up, but may not have cleaned up: others may wait until this Pod has ended", zap.Error(err))
	}
}
