package sharder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
)

// source lists and watches the metadata of some of the objects of one resource, in one namespace or in all. It holds one page.
type source struct {
	client    metadata.ResourceInterface
	resource  protocol.Resource
	namespace string
	selector  labels.Selector
	page      *pageSize
	log       *zap.Logger
	outcome   func(verb string, err error) // is told how requests have ended; nil: nobody is
}

func (s source) ended(ctx context.Context, verb string, err error) {
	if s.outcome != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) {
		s.outcome(verb, err)
	}
}

// pageSize is how many objects of a resource are listed at a time: fewer if they are large, such as
// those with the configuration that was applied last in an annotation. A list of a thousand objects
// could take a gigabyte otherwise.
type pageSize struct {
	limit int64 // at most
	now   atomic.Int64
}

const (
	// firstPage is how many objects are listed before it is known how large they are.
	firstPage = 50
	// pageBytes is what a page should take.
	pageBytes = 4 << 20
)

func newPageSize(limit int) *pageSize {
	p := &pageSize{limit: int64(limit)}
	p.now.Store(min(firstPage, p.limit))
	return p
}

// fit takes in a page of at most asked objects, from which the size of the next one follows. Pages
// grow only after a full one: the few objects without a shard, among which is the ring's history, say
// nothing about the many that have one.
func (p *pageSize) fit(page []metav1.PartialObjectMetadata, asked int64) {
	if len(page) == 0 {
		return
	}
	bytes := 0
	for i := range page {
		bytes += page[i].Size()
	}
	fitting := max(1, min(p.limit, int64(pageBytes/max(1, bytes/len(page)))))
	if fitting < p.now.Load() || int64(len(page)) >= asked {
		p.now.Store(fitting)
	}
}

// sink takes in what a source finds.
type sink struct {
	// listing is told before a list begins; nil: nobody is.
	listing func()
	// found is told of each object that is selected, and of each of its changes. It returns false to end.
	found func(*metav1.PartialObjectMetadata) bool
	// left is told of objects that are not selected any more, or deleted; nil: nobody is.
	left func(*metav1.PartialObjectMetadata)
	// listed is told after found was told of all objects of a list; nil: nobody is.
	listed func()
	// failed is told of each failure; nil: nobody is.
	failed func()
}

// pages lists all objects that are selected, page by page from the storage, and returns the version that the list began with. What is
// listed was read after pages was called, also where the server had to begin anew in the middle because the list took so long.
func (s source) pages(ctx context.Context, found func(*metav1.PartialObjectMetadata) bool) (version string, err error) {
	options := metav1.ListOptions{LabelSelector: s.selector.String()}
	for {
		options.Limit = s.page.now.Load()
		page, err := bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
			return s.client.List(ctx, options)
		})
		switch {
		case apierrors.IsResourceExpired(err) && options.Continue != "" && continueOf(err) != "":
			options.Continue = continueOf(err)
			continue
		case err != nil:
			err = fmt.Errorf("list %s: %w", s.resource.GVR.GroupResource(), err)
			s.ended(ctx, "list", err)
			return "", err
		}
		if version == "" {
			version = page.ResourceVersion
		}
		s.page.fit(page.Items, options.Limit)
		for i := range page.Items {
			o := page.Items[i]
			page.Items[i] = metav1.PartialObjectMetadata{} // found may wait, and keeps nothing else in memory
			if s.selects(&o) && !found(&o) {
				return "", context.Canceled
			}
		}
		if page.Continue == "" {
			s.ended(ctx, "list", nil)
			return version, nil
		}
		options.Continue = page.Continue
	}
}

// continueOf is the token with which a list that took too long can go on from the present state.
func continueOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// selects checks what the server has been asked for: fake clientsets do not.
func (s source) selects(o metav1.Object) bool {
	return s.selector.Matches(labels.Set(o.GetLabels())) && (s.namespace == "" || o.GetNamespace() == s.namespace)
}

const (
	minPause = 100 * time.Millisecond
	maxPause = 15 * time.Second
)

// run lists and watches until ctx has ended. What fails is tried again, after longer and longer pauses.
func (s source) run(ctx context.Context, to sink) {
	pause, failing := minPause, false
	for ctx.Err() == nil {
		useful, err := s.follow(ctx, to)
		switch {
		case ctx.Err() != nil:
			return
		case useful:
			pause, failing = minPause, false
		}
		if err != nil && to.failed != nil {
			to.failed()
		}
		if err != nil && !failing && !apierrors.IsResourceExpired(err) {
			failing = true
			s.log.Warn("watch failed, will be tried again", zap.Error(err))
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// follow lists once, and then watches for as long as the server lets it. It reports whether it came as far as watching.
func (s source) follow(ctx context.Context, to sink) (useful bool, err error) {
	if to.listing != nil {
		to.listing()
	}
	version, err := s.pages(ctx, to.found)
	if err != nil {
		return false, err
	}
	if to.listed != nil {
		to.listed()
	}
	for {
		w, err := opened(ctx, func(ctx context.Context) (watch.Interface, error) {
			return s.client.Watch(ctx, metav1.ListOptions{
				LabelSelector: s.selector.String(), ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(watchSeconds),
			})
		})
		if err != nil {
			err = fmt.Errorf("watch %s: %w", s.resource.GVR.GroupResource(), err)
			s.ended(ctx, "watch", err)
			return useful, err
		}
		s.ended(ctx, "watch", nil)
		began := time.Now()
		next, err := s.followWatch(ctx, w, version, to)
		w.Stop()
		switch {
		case err != nil:
			return true, err
		case ctx.Err() != nil:
			return true, nil
		case next == version && time.Since(began) < time.Second: // a server that ends watches at once
			return useful, nil
		}
		version, useful = next, true
	}
}

// followWatch reads one watch to its end, and returns the version up to which it has told everything.
func (s source) followWatch(ctx context.Context, w watch.Interface, version string, to sink) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			if e.Type == watch.Error {
				return version, fmt.Errorf("watch %s: %w", s.resource.GVR.GroupResource(), apierrors.FromObject(e.Object))
			}
			o, ok := e.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				return version, fmt.Errorf("watch %s: got a %T instead of metadata", s.resource.GVR.GroupResource(), e.Object)
			}
			selected := e.Type != watch.Bookmark && s.selects(o)
			switch {
			case e.Type == watch.Bookmark:
			case e.Type != watch.Deleted && selected:
				if !to.found(o) {
					return version, nil
				}
			case to.left != nil: // fake clientsets tell everything
				to.left(o)
			}
			version = o.ResourceVersion
		}
	}
}

// watchSeconds is after how many seconds a watch ends and goes on as another: a connection that has died may tell nothing for ever.
const watchSeconds int64 = 300
