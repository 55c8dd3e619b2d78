package leaderforlife

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// maxWatchBackoff is how long at most a candidate that may not watch polls before it asks again.
const maxWatchBackoff = time.Minute

// minWatchLife is how long a watch has to last for the next one to be opened at once.
const minWatchLife = 5 * time.Second

// watches are those that are open, at most one of an object.
type watches struct {
	cluster *cluster
	events  chan watchEvent
	joined  sync.WaitGroup // a goroutine for each
	open    map[watchable]*stream
	backoff map[watchable]watchBackoff
}

// stream is one watch.
type stream struct {
	cancel context.CancelFunc
	since  time.Time
}

// watchBackoff is a time without a watch.
type watchBackoff struct {
	until time.Time
	last  time.Duration
}

// watchEvent is an event, or the end of a stream.
type watchEvent struct {
	of    watchable
	from  *stream
	event watch.Event
	ended bool
}

func newWatches(k *cluster) *watches {
	return &watches{cluster: k, events: make(chan watchEvent), open: map[watchable]*stream{}, backoff: map[watchable]watchBackoff{}}
}

// want opens the watches of these objects, and closes the others. fresh reports whether one was
// opened: what changed before it stood has to be read. all reports whether none is missing.
func (w *watches) want(ctx context.Context, objects map[watchable]bool) (fresh, all bool) {
	for o := range w.open {
		if !objects[o] {
			w.forget(o)
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

// start opens a watch. If that fails, it is not tried again for a while.
func (w *watches) start(parent context.Context, o watchable) bool {
	ctx, cancel := context.WithCancel(parent)
	slow := time.AfterFunc(requestTimeout, cancel)
	opened, err := w.cluster.watch(ctx, o)
	if !slow.Stop() && err == nil {
		opened.Stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		refused := kube.RoleMissing(err)
		switch {
		case refused:
			w.cluster.sayOnce("polling instead of watching "+o.resource+
				": succession takes up to a poll interval longer, and idle candidates send requests", zap.Error(err))
		case parent.Err() == nil:
			w.cluster.sayOnce("a watch failed: polling until it succeeds, will be tried again", zap.Error(err))
		}
		w.delay(o, refused)
		return false
	}
	s := &stream{cancel, time.Now()}
	w.open[o] = s
	w.joined.Go(func() {
		defer opened.Stop()
		w.copy(ctx, o, s, opened.ResultChan())
	})
	return true
}

// copy hands on what a watch says, until it ends or is forgotten.
func (w *watches) copy(ctx context.Context, o watchable, s *stream, events <-chan watch.Event) {
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

// end opens a watch again that has ended; not at once, if it did not last.
func (w *watches) end(ctx context.Context, n watchEvent) {
	w.forget(n.of)
	if time.Since(n.from.since) < minWatchLife {
		w.delay(n.of, false)
		return
	}
	delete(w.backoff, n.of)
	w.start(ctx, n.of)
}

// delay keeps a watch from being opened for a while; longer and longer, if it is forbidden.
func (w *watches) delay(o watchable, forbidden bool) {
	b := watchBackoff{last: w.cluster.config.pollInterval}
	if forbidden {
		b.last = min(max(2*w.backoff[o].last, b.last), max(maxWatchBackoff, b.last))
	}
	b.until = time.Now().Add(b.last)
	w.backoff[o] = b
}

func (w *watches) forget(o watchable) {
	w.open[o].cancel()
	delete(w.open, o)
}

// close ends all watches and waits for their goroutines.
func (w *watches) close() {
	for o := range w.open {
		w.forget(o)
	}
	w.joined.Wait()
}
