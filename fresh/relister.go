package fresh

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

var (
	errBehind = errors.New("fresh: Cache.RelistAfter has passed")
	errRelist = errors.New("fresh: the informer has to list")
)

// Relister is a Source that decides when its informer lists all objects again: on standby 10 s to 6
// min after it has to, and at once in a term, as the package documentation describes. With
// Cache.RelistAfter, it also lists when it is behind. The informer must be made from the same Relister.
type Relister struct {
	*listWatch
	source cache.ListerWatcherWithContext
	hold   *hold
	turn   chan struct{} // held during a relist

	mu      sync.Mutex
	current *relist                 // nil if none is under way
	opened  map[*openWatch]struct{} // watches
	asked   map[*request]struct{}   // lists, and watches that are being opened, which may get no answer
}

// request is a request without an answer.
type request struct{ cancel context.CancelCauseFunc }

// listWatch has the methods of a Source.
type listWatch = cache.ListWatch

// relist is a relist that is under way.
type relist struct {
	over    chan struct{} // closed when the informer shows the list, or the wait has ended
	listed  bool          // guarded by Relister.mu, like version
	version string
}

// NewRelister returns a Relister for what source lists and watches.
func NewRelister(source cache.ListerWatcher) *Relister {
	r := &Relister{
		source: cache.ToListerWatcherWithContext(source), hold: newHold(), turn: make(chan struct{}, 1),
		opened: map[*openWatch]struct{}{}, asked: map[*request]struct{}{},
	}
	r.listWatch = &listWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.watch}
	return r
}

// IsWatchListSemanticsUnSupported reports whether client-go must not list by a watch.
func (r *Relister) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(r.source)
}

func (r *Relister) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	r.hold.note(o.ResourceVersion)
	return send(ctx, r, o.Continue == "", func(ctx context.Context) (runtime.Object, error) {
		return r.listOnce(ctx, o)
	})
}

// listOnce lists, during a relist by a consistent read, because an informer by itself accepts any
// list that is not older than its store.
func (r *Relister) listOnce(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel, answered := r.ask(ctx)
	defer cancel(nil)
	defer answered()
	current, _ := r.state()
	if current != nil {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	list, err := r.source.ListWithContext(ctx, o)
	if current == nil || err != nil {
		return list, err
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	current.listed, current.version = true, l.GetResourceVersion()
	return list, nil
}

func (r *Relister) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	r.hold.note(o.ResourceVersion)
	return send(ctx, r, streams(o), func(ctx context.Context) (watch.Interface, error) { return r.open(ctx, o) })
}

// streams reports whether a watch begins with all objects.
func streams(o metav1.ListOptions) bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

// open opens a watch, except during a relist: before the list, the informer has to list, and after
// it, the store must not change until Wait has seen the list in it.
func (r *Relister) open(ctx context.Context, o metav1.ListOptions) (_ watch.Interface, err error) {
	ctx, cancel, answered := r.ask(ctx)
	defer answered()
	defer func() {
		if err != nil {
			cancel(nil)
		}
	}()
	current, listed := r.state()
	switch {
	case current == nil:
	case listed:
		select {
		case <-current.over:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case o.SendInitialEvents != nil: // the informer then falls back to a list
		return nil, errRelist
	default:
		return nil, apierrors.NewResourceExpired(errRelist.Error())
	}
	w, err := r.source.WatchWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	opened := &openWatch{Interface: w, relister: r, cancel: cancel}
	if streams(o) {
		opened.lists = o.ResourceVersion
	}
	r.mu.Lock()
	r.opened[opened] = struct{}{}
	late := r.current != nil && r.current != current // it began meanwhile, and did not stop this watch
	r.mu.Unlock()
	if late {
		opened.Stop()
	}
	return opened, nil
}

// ask returns the context of a request. A relist that begins cancels it, until answered is called.
func (r *Relister) ask(ctx context.Context) (_ context.Context, cancel context.CancelCauseFunc, answered func()) {
	ctx, cancel = context.WithCancelCause(ctx)
	q := &request{cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[q] = struct{}{}
	return ctx, cancel, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, q)
	}
}

// watches reports whether a watch is open that brings what has changed since this version of the
// store, and does not still bring a list.
func (r *Relister) watches(at string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.opened {
		if w.lists != at {
			return true
		}
	}
	return false
}

func (r *Relister) state() (current *relist, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current, r.current != nil && r.current.listed
}

// openWatch is a watch that a relist can stop.
type openWatch struct {
	watch.Interface
	relister *Relister
	cancel   context.CancelCauseFunc
	stop     sync.Once
	lists    string // the version of the store before the watch; empty if it does not begin with a list
}

// Stop implements [watch.Interface].
func (w *openWatch) Stop() {
	w.stop.Do(func() {
		w.relister.mu.Lock()
		delete(w.relister.opened, w)
		w.relister.mu.Unlock()
		w.Interface.Stop()
		w.cancel(nil)
	})
}

// relist has the informer list, and returns when its store shows that list.
func (r *Relister) relist(ctx context.Context, c Cache) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return c.notListed(ctx)
	}
	current := r.begin()
	defer r.end(current)
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		switch {
		case c.Informer.IsStopped():
			return fmt.Errorf("%w: %s", errStopped, c.Resource)
		case r.shown(current, c):
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return c.notListed(ctx)
		}
	}
}

func (r *Relister) begin() *relist {
	current := &relist{over: make(chan struct{})}
	r.mu.Lock()
	r.current = current
	open := make([]*openWatch, 0, len(r.opened))
	for w := range r.opened {
		open = append(open, w)
	}
	for q := range r.asked {
		q.cancel(errRelist)
	}
	r.mu.Unlock()
	for _, w := range open {
		w.Stop()
	}
	return current
}

func (r *Relister) end(current *relist) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = nil
	close(current.over)
}

// shown reports whether the informer's store shows the list. Versions need not be comparable,
// because only the list itself counts.
func (r *Relister) shown(current *relist, c Cache) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return current.listed && c.Informer.HasSynced() && c.version() == current.version
}

func (c Cache) notListed(ctx context.Context) error {
	return fmt.Errorf("fresh: the informer of %s has not listed again: %w", c.Resource, context.Cause(ctx))
}
