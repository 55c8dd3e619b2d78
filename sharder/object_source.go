package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
)

// source lists and watches the metadata of the selected objects of one resource, in one namespace
// or in all. It holds one page in memory.
type source struct {
	client    metadata.ResourceInterface
	resource  protocol.Resource
	namespace string
	selector  labels.Selector
	page      *pageSize
	log       *zap.Logger
	outcome   func(verb string, err error) // called with the results of the requests of run; may be nil
}

func (s source) ended(ctx context.Context, verb string, err error) {
	if s.outcome != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) {
		s.outcome(verb, err)
	}
}

// pageSize is how many objects of a resource are listed at a time. Pages of large objects, such as
// those with their last applied configuration in an annotation, have fewer, because a thousand of
// them could take a gigabyte.
type pageSize struct {
	limit int64 // the largest page
	now   atomic.Int64
}

const (
	// firstPage is the size of a page before the size of objects is known.
	firstPage = 50
	// pageBytes is the memory that a page should take.
	pageBytes = 4 << 20
)

func newPageSize(limit int) *pageSize {
	p := &pageSize{limit: int64(limit)}
	p.now.Store(min(firstPage, p.limit))
	return p
}

// fit adapts the size of the next page to a page of at most asked objects. Pages grow only after a
// full one, because the few objects without a shard, which include the ring's history, are not
// typical.
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

// sink receives what a source finds. All functions but found may be nil.
type sink struct {
	// listing is called before a list begins.
	listing func()
	// found is called with each selected object, and with each of its changes. It returns false to
	// stop.
	found func(*metav1.PartialObjectMetadata) bool
	// left is called with objects that are no longer selected, or were deleted.
	left func(*metav1.PartialObjectMetadata)
	// listed is called after found was called with all objects of a list.
	listed func()
	// failed is called after each failure.
	failed func()
}

// pages lists all selected objects, page by page from the storage, and returns the version at which
// the list began. Everything is read after pages was called, even if the server made it continue at
// a newer version because the list took too long.
func (s source) pages(ctx context.Context, found func(*metav1.PartialObjectMetadata) bool) (version string, err error) {
	options := metav1.ListOptions{LabelSelector: s.selector.String()}
	for {
		options.Limit = s.page.now.Load()
		page, err := kube.Bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
			return s.client.List(ctx, options)
		})
		err = kube.Versioned(page, err)
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
			page.Items[i] = metav1.PartialObjectMetadata{} // found may block: release the memory
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

// continueOf returns the token with which a list that took too long can continue at the present
// version.
func continueOf(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// selects applies the selector again, because fake clientsets do not apply it.
func (s source) selects(o metav1.Object) bool {
	return s.selector.Matches(labels.Set(o.GetLabels())) && (s.namespace == "" || o.GetNamespace() == s.namespace)
}

const (
	minPause = 100 * time.Millisecond
	maxPause = 15 * time.Second
	// lasting is how long a watch must last to be a success.
	lasting = time.Second
)

// run lists and watches until ctx ends. It retries after failures, with growing delays.
func (s source) run(ctx context.Context, to sink) {
	pause, failures := minPause, kube.NewFailures(s.log, clock.System())
	for ctx.Err() == nil {
		useful, err := s.follow(ctx, to)
		switch {
		case ctx.Err() != nil:
			return
		case useful:
			pause = minPause
			failures.Over("watch")
		}
		if err != nil && to.failed != nil {
			to.failed()
		}
		if err != nil && !apierrors.IsResourceExpired(err) {
			failures.NoteAt(kube.LevelOf(ctx, err), "watch", err, "watch failed, retrying", "")
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// follow lists once, and then watches for as long as the server allows. It reports whether a watch
// was useful, that is, has shown something or lasted.
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
		w, err := kube.Watch(ctx, clock.System(), kube.RequestTimeout,
			func(ctx context.Context) (watch.Interface, error) {
				return s.client.Watch(ctx, metav1.ListOptions{
					LabelSelector: s.selector.String(), ResourceVersion: version, AllowWatchBookmarks: true,
					TimeoutSeconds: ptr.To(membership.WatchSeconds),
				})
			})
		if err != nil {
			err = fmt.Errorf("watch %s: %w", s.resource.GVR.GroupResource(), err)
			s.ended(ctx, "watch", err)
			return useful, err
		}
		began := time.Now()
		next, err := s.followWatch(ctx, w, version, to)
		w.Stop()
		inVain := next == version && time.Since(began) < lasting // the server ends watches at once
		useful = useful || !inVain
		if err != nil || inVain || ctx.Err() != nil {
			return useful, err
		}
		version = next
	}
}

// followWatch reads one watch to its end, and returns the version up to which it was complete.
func (s source) followWatch(ctx context.Context, w watch.Interface, version string, to sink) (string, error) {
	lasts := time.NewTimer(lasting)
	defer lasts.Stop()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case <-lasts.C:
			s.ended(ctx, "watch", nil)
		case e, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			if e.Type == watch.Error {
				err := fmt.Errorf("watch %s: %w", s.resource.GVR.GroupResource(), apierrors.FromObject(e.Object))
				s.ended(ctx, "watch", err)
				return version, err
			}
			o, ok := e.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				return version, fmt.Errorf("watch %s: got a %T instead of metadata", s.resource.GVR.GroupResource(),
					e.Object)
			}
			selected := e.Type != watch.Bookmark && s.selects(o)
			switch {
			case e.Type == watch.Bookmark:
			case e.Type != watch.Deleted && selected:
				if !to.found(o) {
					return version, nil
				}
			case to.left != nil: // fake clientsets ignore selectors
				to.left(o)
			}
			version = o.ResourceVersion
		}
	}
}

// maxSelector bounds the length of a watch's selector that names the members, which is part of a
// URL.
const maxSelector = 4096

// strays selects the objects that are with no member: unassigned ones, those of shards that are
// gone, and those with the label of a shard that never existed. If the members do not fit into a
// URL, it selects only the unassigned ones.
func strays(m protocol.Membership, n protocol.Keys, base labels.Selector) labels.Selector {
	if s := with(base, n.Shard, selection.NotIn, m.Names()...); len(s.String()) <= maxSelector {
		return s
	}
	return with(base, n.Shard, selection.DoesNotExist)
}

// movable selects the children that may be moved: those without a member's label, and those of the
// sources.
func movable(m protocol.Membership, n protocol.Keys, sources ...string) labels.Selector {
	others := slices.DeleteFunc(m.Names(), func(name string) bool { return slices.Contains(sources, name) })
	if len(others) == 0 {
		return labels.Everything()
	}
	if s := with(labels.Everything(), n.Shard, selection.NotIn, others...); len(s.String()) <= maxSelector {
		return s
	}
	return labels.Everything()
}

// with narrows a selector. The name of the label and the values are valid.
func with(base labels.Selector, key string, op selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(key, op, values)
	if err != nil {
		panic(fmt.Sprintf("sharder: select %s %s %q: %v", key, op, values, err))
	}
	return base.Add(*requirement)
}

// resourceTrouble is a request for the objects of a resource that fails, or a resource that is not
// served.
type resourceTrouble struct {
	resource        schema.GroupVersionResource
	namespace, verb string
}

// troubledRequest is a request with one purpose, because a request with another purpose may find no
// object and succeed.
type troubledRequest struct {
	resourceTrouble
	purpose string
}

// resourceTroubles holds the present troubles.
type resourceTroubles struct {
	hook func(ResourceState)

	mu   sync.Mutex
	open map[troubledRequest]error
}

func newResourceTroubles(hook func(ResourceState)) *resourceTroubles {
	return &resourceTroubles{hook: hook, open: map[troubledRequest]error{}}
}

// note records how a request ended. It calls the hook when the state of its resource has changed.
func (t *resourceTroubles) note(of troubledRequest, err error) {
	t.mu.Lock()
	before := t.present(of.resourceTrouble)
	if err == nil {
		delete(t.open, of)
	} else {
		t.open[of] = err
	}
	now := t.present(of.resourceTrouble)
	t.mu.Unlock()
	if fmt.Sprint(before) != fmt.Sprint(now) {
		t.hook(ResourceState{GVR: of.resource, Namespace: of.namespace, Verb: of.verb, Err: now})
	}
}

// present returns why requests with any purpose fail, or nil. The caller holds mu.
func (t *resourceTroubles) present(of resourceTrouble) (err error) {
	purpose := ""
	for r, e := range t.open {
		if r.resourceTrouble == of && (err == nil || r.purpose < purpose) {
			purpose, err = r.purpose, e
		}
	}
	return err
}

// resources returns the troubled resources, sorted.
func (t *resourceTroubles) resources() []schema.GroupVersionResource {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []schema.GroupVersionResource
	for of := range t.open {
		if !slices.Contains(all, of.resource) {
			all = append(all, of.resource)
		}
	}
	slices.SortFunc(all, func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// end calls the hook for all troubles, because the sharder ends.
func (t *resourceTroubles) end() {
	t.mu.Lock()
	var all []troubledRequest
	for of := range t.open {
		all = append(all, of)
	}
	t.mu.Unlock()
	for _, of := range all {
		t.note(of, nil)
	}
}
