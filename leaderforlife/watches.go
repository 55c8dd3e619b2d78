package leaderforlife

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
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
