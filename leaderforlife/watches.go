package leaderforlife

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// maxWatchBackoff bounds the pause before a candidate retries a forbidden watch.
const maxWatchBackoff = time.Minute

// minWatchLife is how long a watch must last to be reopened at once.
const minWatchLife = 5 * time.Second

// watches are the open watches, at most one for each object.
type watches struct {
	cluster *cluster
	events  chan watchEvent
	joined  sync.WaitGroup // one goroutine for each watch
	open    map[watchable]*stream
	backoff map[watchable]watchBackoff
}

// stream is one watch.
type stream struct {
	cancel context.CancelFunc
	since  time.Time
}

// watchBackoff is a pause before a watch is opened again.
type watchBackoff struct {
	until time.Time
	last  time.Duration
}

// watchEvent is an event of a stream, or its end.
type watchEvent struct {
	of    watchable
	from  *stream
	event watch.Event
	ended bool
}

func newWatches(k *cluster) *watches {
	return &watches{
		cluster: k, events: make(chan watchEvent), open: map[watchable]*stream{},
		backoff: map[watchable]watchBackoff{},
	}
}

// want opens the watches of these objects and closes the others. fresh reports whether it opened
// one, because earlier changes must then be read. all reports whether every watch is open.
func (w *watches) want(ctx context.Context, objects map[watchable]bool) (fresh, all bool) {
	for o := range w.open {
		if !objects[o] {
			w.stop(o)
		}
	}
	all = true
	for o := range objects {
		if w.open[o] != nil {
			continue
		}
		if time.Now().Before(w.backoff[o].until) || !w.start(ctx, o) {
			all = false
			continue
		}
		fresh = true
	}
	return fresh, all
}

// start opens a watch. If that fails, the next attempt waits.
func (w *watches) start(parent context.Context, o watchable) bool {
	ctx, cancel := context.WithCancel(parent)
	opened, err := kube.Watch(ctx, clock.System(), requestTimeout,
		func(ctx context.Context) (watch.Interface, error) { return w.cluster.watch(ctx, o) })
	if err != nil {
		cancel()
		refused := kube.RoleMissing(err)
		switch {
		case refused:
			w.cluster.sayOnce("polling instead of watching "+o.resource+
				": succession takes up to a poll interval longer, and idle candidates send requests", zap.Error(err))
		case parent.Err() == nil:
			w.cluster.failures.Note("watch "+o.resource, err, "watch failed, retrying", "")
		}
		w.postpone(o, refused)
		return false
	}
	w.cluster.failures.Over("watch " + o.resource)
	s := &stream{cancel, time.Now()}
	w.open[o] = s
	w.joined.Go(func() {
		defer opened.Stop()
		w.forward(ctx, o, s, opened.ResultChan())
	})
	return true
}

// forward sends events until the watch ends or is closed.
func (w *watches) forward(ctx context.Context, o watchable, s *stream, events <-chan watch.Event) {
	timeout := time.NewTimer(watchTimeout)
	defer timeout.Stop()
	for {
		n := watchEvent{of: o, from: s, ended: true}
		select {
		case <-timeout.C:
		case e, ok := <-events:
			if ok && e.Type != watch.Error {
				n.event, n.ended = e, false
			}
		case <-ctx.Done():
			return
		}
		select {
		case w.events <- n:
		case <-ctx.Done():
			return
		}
		if n.ended {
			return
		}
	}
}

// reopen opens a watch that has ended: at once if it lasted, else later.
func (w *watches) reopen(ctx context.Context, n watchEvent) {
	w.stop(n.of)
	if time.Since(n.from.since) < minWatchLife {
		w.postpone(n.of, false)
		return
	}
	delete(w.backoff, n.of)
	w.start(ctx, n.of)
}

// postpone delays the next attempt to open a watch, for longer each time if it is forbidden.
func (w *watches) postpone(o watchable, forbidden bool) {
	b := watchBackoff{last: w.cluster.config.pollInterval}
	if forbidden {
		b.last = min(max(2*w.backoff[o].last, b.last), max(maxWatchBackoff, b.last))
	}
	b.until = time.Now().Add(b.last)
	w.backoff[o] = b
}

func (w *watches) stop(o watchable) {
	w.open[o].cancel()
	delete(w.open, o)
}

// close ends all watches and waits for their goroutines.
func (w *watches) close() {
	for o := range w.open {
		w.stop(o)
	}
	w.joined.Wait()
}

// await returns when there may be something new to read. It sends no request while it can watch
// everything that it waits for.
func (c *candidate) await(ctx context.Context, v state, waiting []Waiting) error {
	abilities := c.abilities
	c.abilities.noDelete = false // retry the deletion after a poll interval
	fresh, all := c.watches.want(ctx, c.objects(waiting))
	if fresh {
		return nil
	}
	var poll <-chan time.Time
	if !all || c.config.fence != nil || abilities.noDelete {
		timer := time.NewTimer(c.config.pollInterval*9/10 + rand.N(c.config.pollInterval/5))
		defer timer.Stop()
		poll = timer.C
	}
	for {
		select {
		case n := <-c.watches.events:
			if c.handleEvent(ctx, n) {
				return nil
			}
			v.ownerOver, v.waiting = c.checkContenders()
			next, waiting := v.next(abilities)
			if next != toWait {
				return nil
			}
			c.reportWaiting(waiting)
		case <-poll:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// objects returns the objects whose changes may matter.
func (c *candidate) objects(waiting []Waiting) map[watchable]bool {
	objects := map[watchable]bool{{c.cluster.kind, c.config.lock}: true}
	for _, w := range waiting {
		objects[watchable{"pods", w.Pod}] = true
		if c.config.nodes && w.Node != "" {
			objects[watchable{"nodes", w.Node}] = true
		}
	}
	return objects
}

// handleEvent records an event and reports whether it requires a new round.
func (c *candidate) handleEvent(ctx context.Context, n watchEvent) bool {
	if c.watches.open[n.of] != n.from { // from a watch that was closed
		return false
	}
	if n.ended {
		c.watches.reopen(ctx, n)
		return true
	}
	switch o := n.event.Object.(type) {
	case *corev1.Pod:
		return o.Name == n.of.name && c.handlePod(o, n.event.Type == watch.Deleted)
	case *corev1.Node:
		if o.Name != n.of.name {
			return false
		}
		state := stateOf(o)
		state.gone = n.event.Type == watch.Deleted
		c.nodes[o.Name] = state
		return state.down()
	case metav1.Object:
		return o.GetName() == c.config.lock && c.handleLock(o, n.event.Type == watch.Deleted)
	}
	return false
}

func (c *candidate) handlePod(pod *corev1.Pod, deleted bool) bool {
	s := c.others[pod.UID]
	if s == nil { // another Pod of that name, or our own
		return false
	}
	labelled := s.seen != nil && s.seen.Labels[c.cluster.label] != ""
	s.observe(pod)
	return deleted || ended(pod) || labelled && pod.Labels[c.cluster.label] == ""
}

func (c *candidate) handleLock(o metav1.Object, deleted bool) bool {
	if deleted {
		return c.seen == nil || c.seen.uid == o.GetUID()
	}
	return c.seen == nil || c.seen.uid != o.GetUID() || c.seen.version != o.GetResourceVersion()
}
