package leaderforlife

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// maxBlindness is how long at most a candidate that may not watch polls before it asks again.
const maxBlindness = time.Minute

// shortLife is how long a watch has to last for the next one to be opened at once.
const shortLife = 5 * time.Second

// watches are those that are open, at most one of an object.
type watches struct {
	cluster *cluster
	news    chan news
	joined  sync.WaitGroup // a goroutine for each
	open    map[watchable]*stream
	blind   map[watchable]blindness
}

// stream is one watch.
type stream struct {
	cancel context.CancelFunc
	since  time.Time
}

// blindness is a time without a watch.
type blindness struct {
	until time.Time
	last  time.Duration
}

// news is an event, or the end of a stream.
type news struct {
	of    watchable
	from  *stream
	event watch.Event
	ended bool
}

func newWatches(k *cluster) *watches {
	return &watches{cluster: k, news: make(chan news), open: map[watchable]*stream{}, blind: map[watchable]blindness{}}
}

// want opens the watches of these objects, and closes the others. fresh reports whether one was opened: what changed before it
// stood has to be read. all reports whether none is missing.
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
		if time.Now().Before(w.blind[o].until) || !w.start(ctx, o) {
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
		w.shut(o, refused)
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
		n := news{of: o, from: s, ended: true}
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
		case w.news <- n:
		case <-ctx.Done():
			return
		}
		if n.ended {
			return
		}
	}
}

// end opens a watch again that has ended; not at once, if it did not last.
func (w *watches) end(ctx context.Context, n news) {
	w.forget(n.of)
	if time.Since(n.from.since) < shortLife {
		w.shut(n.of, false)
		return
	}
	delete(w.blind, n.of)
	w.start(ctx, n.of)
}

// shut keeps a watch from being opened for a while; longer and longer, if it is forbidden.
func (w *watches) shut(o watchable, forbidden bool) {
	b := blindness{last: w.cluster.config.pollInterval}
	if forbidden {
		b.last = min(max(2*w.blind[o].last, b.last), max(maxBlindness, b.last))
	}
	b.until = time.Now().Add(b.last)
	w.blind[o] = b
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
