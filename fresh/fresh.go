package fresh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// ErrNotComparable is matched by the error of [Wait] for a resource whose versions are not numbers,
// and for an informer whose transform removes the versions of its objects.
var ErrNotComparable = errors.New("fresh: resource versions cannot be compared")

var (
	errStopped    = errors.New("fresh: the informer has been stopped, and shows no more changes")
	errNoVersion  = errors.New("fresh: an object has no version")
	errNoBookmark = errors.New("fresh: a watch has ended without a bookmark")
)

const (
	// probeSeconds is how long a watch of Wait lasts. The API server sends a bookmark 2 s before
	// the end of a watch, if the watch has begun by then.
	probeSeconds int64 = 3
	// pollInterval is how often Wait reads an informer's version.
	pollInterval = 5 * time.Millisecond
	// probeDelay is how long Wait gives the informer to reach a version that a term has written,
	// which mostly takes milliseconds.
	probeDelay = 500 * time.Millisecond
	// requestTimeout bounds a list, and how long the answer to a watch may take to begin.
	requestTimeout = 30 * time.Second
	// retryInterval is the pause after a request that has failed.
	retryInterval = 250 * time.Millisecond
	// maxRefusal bounds how long a list may be forbidden, while an API server starts or roles are
	// created.
	maxRefusal = 15 * time.Second
)

// Cache is a running informer, and the way to ask the API server about what it shows.
type Cache struct {
	// Resource is the resource of the objects, such as corev1.Resource("configmaps"). If it is
	// empty, Wait lists.
	Resource schema.GroupResource
	// Informer has been started, and may have synced. Its transform must keep the resourceVersion,
	// and must not return nil, because client-go then drops whole lists. The error of Wait matches
	// ErrNotComparable if the store has an object without its version. Required.
	Informer cache.SharedInformer
	// Source lists and watches what the informer shows, with its namespace and selectors. It is the
	// ListerWatcher that the informer was made from, or an equal one, as from [Source]. Required.
	Source cache.ListerWatcher
	// RelistAfter bounds a wait for what the informer's watch delivers. After it, or at once if the
	// versions cannot be compared, the informer lists everything again, and Wait continues until it
	// shows that list. So a watch that hangs costs a list, not the term. Source must be a
	// [Relister]. 0: the informer never relists, and the wait ends with its context.
	RelistAfter time.Duration
}

func (c Cache) validate() error {
	_, relister := c.Source.(*Relister)
	switch {
	case c.Informer == nil:
		return fmt.Errorf("fresh: Cache.Informer of %s: must not be nil", c.Resource)
	case c.Source == nil:
		return fmt.Errorf("fresh: Cache.Source of %s: must not be nil", c.Resource)
	case c.RelistAfter < 0:
		return fmt.Errorf("fresh: Cache.RelistAfter of %s: must not be negative (got %v)", c.Resource, c.RelistAfter)
	case c.RelistAfter > 0 && !relister:
		return fmt.Errorf("fresh: Cache.RelistAfter of %s: Source must be a *fresh.Relister (got %T)", c.Resource,
			c.Source)
	}
	return nil
}

// Source returns the Source of a Cache for a typed client, such as client.CoreV1().ConfigMaps(""),
// whose informer has no selector.
func Source[List runtime.Object](resource interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
},
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: resource.Watch,
	}
}

// Wait returns nil when every cache shows what the terms before that of ctx have written, or a
// later state. ctx is the context of a lead function of package leaderelection. If all earlier
// terms have left the versions of their writes, Wait sends no request. Otherwise, and with any
// other context, it does what [WaitLatest] does.
//
// Wait retries failed requests until ctx has ended, so bound the wait by the deadline of ctx. Its
// error names each cache that is not fresh. It matches the cause of ctx's end or
// [ErrNotComparable], or is of a list that the API server has forbidden for 15 s, or of an informer
// that has been stopped. With Cache.RelistAfter the informer lists instead of failing with
// ErrNotComparable.
func Wait(ctx context.Context, caches ...Cache) error { return each(ctx, caches, Cache.waitForTerms) }

// WaitLatest returns nil when every cache shows each write of any client that the API server had
// acknowledged before the call, or a later state. Its errors are those of [Wait].
func WaitLatest(ctx context.Context, caches ...Cache) error {
	return each(ctx, caches, Cache.waitForList)
}

func each(ctx context.Context, caches []Cache, wait func(Cache, context.Context) error) error {
	errs := make([]error, len(caches))
	for i, c := range caches {
		errs[i] = c.validate()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var waiting sync.WaitGroup
	for i, c := range caches {
		if r, ok := c.Source.(*Relister); ok {
			r.hold.end(ctx)
		}
		waiting.Go(func() { errs[i] = c.orRelist(ctx, wait) })
	}
	waiting.Wait()
	return errors.Join(errs...)
}

// orRelist waits, for as long as RelistAfter allows, and then relists.
func (c Cache) orRelist(ctx context.Context, wait func(Cache, context.Context) error) error {
	if c.RelistAfter == 0 {
		return wait(c, ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.RelistAfter, errBehind)
	defer cancel()
	err := wait(c, bounded)
	if !errors.Is(err, errBehind) && !errors.Is(err, ErrNotComparable) {
		return err
	}
	return c.Source.(*Relister).relist(ctx, c)
}

func (c Cache) waitForTerms(ctx context.Context) error {
	floor, known := handover.LogOf(ctx).Before(c.Resource)
	if !known {
		return c.waitForList(ctx)
	}
	return c.wait(ctx, floor, probeDelay)
}

// waitForList notes the version of the list for later terms, because it is above all that was
// written before.
func (c Cache) waitForList(ctx context.Context) error {
	listed := handover.LogOf(ctx).Begin(c.Resource, handover.Whole)
	floor, err := c.floor(ctx)
	if err != nil || floor == "" {
		listed.Refused()
		return err
	}
	listed.Above(floor)
	return c.wait(ctx, floor, 0)
}

// wait waits until the informer has reached floor or, if floor is empty, has synced. It asks the
// API server what the informer has missed up to floor only after delay.
func (c Cache) wait(ctx context.Context, floor string, delay time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	defer probing.Wait()
	defer cancel()
	lowered, shown := make(chan string, 1), make(chan struct{})
	probing.Go(func() {
		if floor != "" && (delay == 0 || clock.Sleep(ctx, delay)) {
			c.probe(ctx, floor, lowered, shown)
		}
	})
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		at := c.version()
		reached, err := reaches(at, floor)
		if floor == "" {
			reached, err = c.Informer.HasSynced(), nil
		}
		switch {
		case c.Informer.IsStopped():
			return fmt.Errorf("%w: %s", errStopped, c.Resource)
		case err != nil:
			return fmt.Errorf("%w: %s: %w", ErrNotComparable, c.Resource, err)
		case floor != "" && (reached || at == "") && c.stripped():
			return fmt.Errorf("%w: %s: a transform must keep metadata.resourceVersion", ErrNotComparable,
				c.Resource)
		case reached:
			return nil
		}
		select {
		case floor = <-lowered:
		case <-shown:
			return nil
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("fresh: the cache of %s is at version %q, and has to reach %q: %w", c.Resource, at, floor,
				context.Cause(ctx))
		}
	}
}

// floor returns the version of a consistent list, as soon as one succeeds. It is empty if the
// objects have no versions and the informer has synced.
func (c Cache) floor(ctx context.Context) (string, error) {
	source := c.source()
	var refused time.Time // since when the list is forbidden; zero if it is not
	for {
		list, err := listPage(ctx, source, metav1.ListOptions{Limit: 1})
		if err == nil {
			var version string
			version, err = versionOf(list)
			switch {
			case err != nil:
			case !versioned(list):
				if c.Informer.HasSynced() {
					return "", nil
				}
			case version != "": // something between may answer without one
				return version, nil
			}
		}
		switch {
		case c.Informer.IsStopped():
			return "", fmt.Errorf("%w: %s", errStopped, c.Resource)
		case !kube.Forbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= maxRefusal:
			return "", fmt.Errorf("fresh: list %s: %w", c.Resource, err)
		}
		if !clock.Sleep(ctx, retryInterval) {
			return "", errors.Join(fmt.Errorf("fresh: list %s: %w", c.Resource, context.Cause(ctx)), err)
		}
	}
}

// source is for requests of Wait itself, because a Relister takes its requests for the informer's.
func (c Cache) source() cache.ListerWatcherWithContext {
	if r, ok := c.Source.(*Relister); ok {
		return r.source
	}
	return cache.ToListerWatcherWithContext(c.Source)
}

// lists reports whether the informer, whose store is at this version, will list or does so now.
func (c Cache) lists(at string) bool {
	r, ok := c.Source.(*Relister)
	return ok && !r.watches(at)
}

// listPage returns a list, or one page of it.
func listPage(
	ctx context.Context, source cache.ListerWatcherWithContext, o metav1.ListOptions,
) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return source.ListWithContext(ctx, o)
}

// probe lowers floor to the version of the last change up to it, unless the informer has reached
// that. If no watch can show which that is, probe lists all objects, and closes shown when the
// informer shows that list. But if the informer has to list as well, that list is enough: after a
// restart of the API server each leader would otherwise list everything twice.
func (c Cache) probe(ctx context.Context, floor string, lowered chan<- string, shown chan<- struct{}) {
	for began := time.Now(); ctx.Err() == nil; clock.Sleep(ctx, retryInterval) {
		at := c.version()
		if at == "" {
			continue
		}
		last, err := c.lastChange(ctx, at, floor)
		if err == nil {
			lowered <- last
			return
		}
		if !errors.Is(err, errNoBookmark) || c.lists(at) && time.Since(began) < requestTimeout {
			continue
		}
		if all, err := c.list(ctx, floor); err == nil && c.shows(ctx, all) {
			close(shown)
			return
		}
	}
}

// shows waits until the informer shows a list, for as long as a request may take; the list is then
// requested again.
func (c Cache) shows(ctx context.Context, all contents) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for !all.shownBy(c.Informer.GetStore().List()) {
		if !clock.Sleep(ctx, retryInterval) {
			return false
		}
	}
	return true
}

// lastChange returns the version of the last change in (at, floor], or at if nothing has changed.
// The error matches errNoBookmark if another watch would not show it either.
func (c Cache) lastChange(ctx context.Context, at, floor string) (last string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seconds := probeSeconds
	w, err := kube.Watch(ctx, clock.System(), requestTimeout, func(ctx context.Context) (watch.Interface, error) {
		w, err := c.source().WatchWithContext(ctx, metav1.ListOptions{
			ResourceVersion: at, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		})
		if err != nil {
			return nil, err
		}
		return drained{w}, nil
	})
	if err != nil {
		return "", ended(err)
	}
	defer w.Stop()
	defer cancel() // before Stop, which reads to the end
	for {
		var event watch.Event
		select {
		case e, open := <-w.ResultChan():
			if !open {
				return "", errNoBookmark
			}
			event = e
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if event.Type == watch.Error {
			return "", ended(apierrors.FromObject(event.Object))
		}
		version, err := versionOf(event.Object)
		if err != nil {
			return "", err
		}
		reached, err := reaches(version, floor)
		switch {
		case err != nil:
			return "", err
		case reached && version == floor && event.Type != watch.Bookmark:
			return version, nil
		case reached:
			return at, nil
		case version == "":
			return "", errNoVersion
		case event.Type != watch.Bookmark:
			at = version
		}
	}
}

// drained is a watch that is read to its end when it is stopped. A watch that passes on the events
// of another, such as watch.Filter of apimachinery, which controller-runtime uses to watch
// metadata, may otherwise wait for ever for a reader of the next event.
type drained struct{ watch.Interface }

// Stop implements [watch.Interface].
func (w drained) Stop() {
	w.Interface.Stop()
	for range w.ResultChan() { // until it is closed
	}
}

// ended returns the error of a watch, which matches errNoBookmark if the API server has forgotten what
// the informer has missed.
func ended(err error) error {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return fmt.Errorf("%w: %w", errNoBookmark, err)
	}
	return err
}

// version returns the resourceVersion that the informer's store has reached, or "" if it is unknown.
func (c Cache) version() string {
	if !c.Informer.HasSynced() {
		return ""
	}
	return c.Informer.GetStore().LastStoreSyncResourceVersion()
}

// stripped reports whether the informer's store has objects without their versions. Its own version
// may be missing for another reason, because something has answered a list without one.
func (c Cache) stripped() bool {
	return slices.ContainsFunc(c.Informer.GetStore().List(), func(o any) bool {
		version, err := versionOf(o)
		return err == nil && version == ""
	})
}

// versioned reports whether the objects of a list have versions, unlike those of a fake clientset.
func versioned(list runtime.Object) bool {
	return meta.EachListItem(list, func(o runtime.Object) error {
		if version, err := versionOf(o); err != nil || version == "" {
			return errNoVersion
		}
		return nil
	}) == nil
}

func versionOf(o any) (string, error) {
	accessor, err := meta.CommonAccessor(o)
	if err != nil {
		return "", err
	}
	return accessor.GetResourceVersion(), nil
}

// reaches reports whether a version is at least floor. The empty version, that of an informer that
// has not synced, reaches no floor.
func reaches(version, floor string) (bool, error) {
	if version == "" {
		_, err := resourceversion.CompareResourceVersion(floor, floor)
		return false, err
	}
	order, err := resourceversion.CompareResourceVersion(version, floor)
	return err == nil && order >= 0, err
}
