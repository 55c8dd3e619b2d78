package sharder

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// objects are the objects of a ring, as the API server has them.
type objects struct {
	config   Config
	client   metadata.Interface
	troubles *resourceTroubles

	roots    []protocol.Resource
	unserved error // names the resources, if any, that the API server does not serve
	graph    protocol.ResourceGraph
	keys     protocol.Keys
	marks    []protocol.Keys // of each resource
	pages    []*pageSize     // of each resource
	throttle throttle
	notes    notes
}

func newObjects(c Config, client metadata.Interface, mapper meta.RESTMapper, troubles *resourceTroubles) (
	*objects, error,
) {
	roots, unserved, err := protocol.Resolve(mapper, c.Resources)
	if err != nil {
		return nil, err
	}
	o := &objects{
		config: c, client: client, troubles: troubles, roots: roots, unserved: unserved,
		graph: protocol.ResourceGraphOf(roots), keys: protocol.KeysOf(c.Ring),
		throttle: throttle{hook: c.Hooks.OnThrottled, log: c.Logger},
	}
	for _, r := range o.graph.All {
		o.marks = append(o.marks, o.keys.Of(r.GVR.GroupResource()))
		o.pages = append(o.pages, newPageSize(c.PageSize))
	}
	return o, nil
}

// serves reports whether the objects of a resource are distributed.
func (o *objects) serves(gvr schema.GroupVersionResource) bool {
	return slices.ContainsFunc(o.roots, func(r protocol.Resource) bool { return r.GVR == gvr })
}

// isRoot reports whether the objects of a resource, by its index, are roots.
func (o *objects) isRoot(resource int) bool { return resource < len(o.roots) }

// sources returns the sources of a resource's objects, one for each namespace.
func (o *objects) sources(index int, selector labels.Selector) []source {
	var all []source
	r := o.graph.All[index]
	for _, namespace := range r.WatchedNamespaces() {
		all = append(all, source{
			client: o.of(index, namespace), resource: r, namespace: namespace, selector: selector,
			page: o.pages[index], log: o.config.Logger,
		})
	}
	return all
}

// reported returns sources that record whether their requests succeed. They all have one purpose.
func (o *objects) reported(from []source, purpose string) []source {
	for i := range from {
		resource, namespace := from[i].resource.GVR, from[i].namespace
		from[i].outcome = func(verb string, err error) {
			o.troubles.note(troubledRequest{resourceTrouble{resource, namespace, verb}, purpose}, err)
		}
	}
	return from
}

// place is where objects of a resource, by its index, are listed and watched: in a namespace, or in
// all if it is empty.
type place struct {
	resource  int
	namespace string
}

// placeOf returns the place of the objects of a resource that are in a namespace.
func (o *objects) placeOf(resource int, namespace string) place {
	return place{resource, o.graph.All[resource].WatchedNamespace(namespace)}
}

// of returns the client for the objects of a resource in a namespace, or in all if it is empty.
func (o *objects) of(index int, namespace string) metadata.ResourceInterface {
	client := o.client.Resource(o.graph.All[index].GVR)
	if namespace == "" {
		return client
	}
	return client.Namespace(namespace)
}

// rootOf returns the Root of an object. ok is false if the object is not distributed.
func (o *objects) rootOf(index int, object *metav1.PartialObjectMetadata) (v protocol.Root, ok bool) {
	r := o.roots[index]
	if object.Name == membership.HistoryName(o.config.Ring) && object.Namespace == o.config.Namespace &&
		r.Kind.Group == "" && r.Kind.Kind == "ConfigMap" {
		return protocol.Root{}, false
	}
	return o.marks[index].RootOf(index, r, object), true
}

// childOf returns the Child of an object. ok is false if the object is not a child of the ring.
func (o *objects) childOf(index int, object *metav1.PartialObjectMetadata) (c protocol.Child, ok bool) {
	c, ok = o.graph.ChildOf(index, object)
	c.Label, c.Drain = o.keys.ShardOf(object), o.keys.Draining(object)
	return c, ok
}

// inUse reports whether an object carries a label or record of the ring. It also returns true if a
// resource cannot be listed somewhere.
func (o *objects) inUse(ctx context.Context) (bool, error) {
	touched := o.unserved != nil
	listed := false
	var errs []error
	for i := range o.roots {
		for _, src := range o.reported(o.sources(i, o.roots[i].Selector), "stray") {
			_, err := src.pages(ctx, func(object *metav1.PartialObjectMetadata) bool {
				touched = touched || o.marks[i].CarriesMarks(object)
				return !touched
			})
			if touched {
				return true, nil
			}
			listed = listed || err == nil
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if !listed {
		return false, err
	}
	return err != nil, nil
}

// withoutShard reports whether no object carries the label of a shard.
func (o *objects) withoutShard(ctx context.Context, shard string) (bool, error) {
	if o.unserved != nil {
		return false, o.unserved
	}
	for i := range o.graph.All {
		// The selector does not matter: an object that is no longer selected is still the shard's.
		for _, src := range o.sources(i, with(labels.Everything(), o.keys.Shard, selection.Equals, shard)) {
			if o.isRoot(i) {
				src.page = newPageSize(1)
			}
			found := false
			_, err := src.pages(ctx, func(object *metav1.PartialObjectMetadata) bool {
				found = o.isRoot(i)
				if !found { // a child without a root keeps its label
					_, found = o.graph.ChildOf(i, object)
				}
				return !found
			})
			if found {
				return false, nil
			}
			if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// get reads an object. It returns nil if the object does not exist.
func (o *objects) get(ctx context.Context, r protocol.Ref) (*metav1.PartialObjectMetadata, error) {
	object, err := kube.Bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.of(r.Resource, r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	})
	switch {
	case o.absent(r, err):
		return nil, nil
	case err != nil:
		return nil, o.failed("get", r, err)
	}
	return object, nil
}

// absent reports whether err means that an object does not exist.
func (o *objects) absent(r protocol.Ref, err error) bool {
	return kube.Absent(err, o.resource(r), r.Name)
}

func (o *objects) resource(r protocol.Ref) schema.GroupResource {
	return o.graph.All[r.Resource].GVR.GroupResource()
}

// read returns the current root. It returns nil if the object does not exist or is not distributed.
func (o *objects) read(ctx context.Context, r protocol.Ref) (*protocol.Root, error) {
	object, err := o.get(ctx, r)
	if object == nil {
		return nil, err
	}
	v, ok := o.rootOf(r.Resource, object)
	if !ok || !o.selects(r.Resource, object) {
		return nil, nil
	}
	return &v, nil
}

// selects reports whether the Selector of a resource of roots selects an object.
func (o *objects) selects(resource int, object metav1.Object) bool {
	return o.roots[resource].Selector.Matches(labels.Set(object.GetLabels()))
}

// send sends a patch that sets the shard label of an object, and returns the new version.
func (o *objects) send(ctx context.Context, r protocol.Ref, v protocol.Verb, shard string,
	patch []byte,
) (version string, err error) {
	began := time.Now()
	object, err := o.merge(ctx, r, patch)
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errGivenUp) {
		o.config.Hooks.OnPatch(Patch{
			Object: o.ref(r), Verb: string(v), Shard: shard, Latency: time.Since(began), Err: err,
		})
	}
	if err != nil {
		return "", o.failed("patch", r, err)
	}
	return object.ResourceVersion, nil
}

// merge sends a merge patch.
func (o *objects) merge(ctx context.Context, r protocol.Ref, patch []byte) (*metav1.PartialObjectMetadata, error) {
	object, err := kube.Bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return o.of(r.Resource, r.Namespace).Patch(o.throttle.watch(ctx), r.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: protocol.FieldManager})
	})
	if err == nil {
		err = protocol.Applied(patch, object)
	}
	return object, err
}

// failed adds the request to an error.
func (o *objects) failed(verb string, r protocol.Ref, err error) error {
	of := o.graph.All[r.Resource]
	needs := kube.Right{
		Verb: verb, Resource: of.GVR.GroupResource(), Namespace: of.WatchedNamespace(r.Namespace), Name: r.Name,
	}
	object := fmt.Sprintf("%s %s/%s", needs.Resource, r.Namespace, r.Name)
	return &kube.RequestError{Right: needs, Object: object, Err: err}
}

func (o *objects) ref(r protocol.Ref) api.ObjectRef {
	return api.ObjectRef{GVR: o.graph.All[r.Resource].GVR, Namespace: r.Namespace, Name: r.Name}
}

func (o *objects) log(r protocol.Ref) *zap.Logger {
	return o.config.Logger.With(zap.Stringer("resource", o.resource(r)),
		zap.String("namespace", r.Namespace), zap.String("name", r.Name))
}

// warn records a warning Event about an object.
func (o *objects) warn(r protocol.Ref, uid types.UID, reason, action, format string, args ...any) {
	if o.config.Events == nil {
		return
	}
	of := o.graph.All[r.Resource]
	o.config.Events.Eventf(&corev1.ObjectReference{
		APIVersion: of.GVR.GroupVersion().String(), Kind: of.Kind.Kind, Namespace: r.Namespace, Name: r.Name, UID: uid,
	}, nil, corev1.EventTypeWarning, reason, action, "ring %s: "+format, append([]any{o.config.Ring}, args...)...)
}

// note logs a failure, once for each object and cause.
func (o *objects) note(ctx context.Context, i *item, err error) {
	level := kube.LevelOf(ctx, err)
	if said := err.Error(); said != i.said && o.notes.admit(time.Now()) {
		i.said = said
		o.log(i.Ref).Log(level, "object update failed, retrying", zap.Error(err))
	}
}

const (
	// noteInterval is the time in which at most maxNotes failures are logged. There may be
	// thousands.
	noteInterval = 10 * time.Second
	maxNotes     = 5
)

// notes limits what is logged.
type notes struct {
	mu    sync.Mutex
	began time.Time
	count int
}

// admit reports whether a failure may be logged now.
func (n *notes) admit(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.began) >= noteInterval {
		n.began, n.count = now, 0
	}
	n.count++
	return n.count <= maxNotes
}

// throttle finds out whether the client's own rate limit delays requests. With client-go's default
// of 5 requests per second, a sharder would work for hours without a sign. Clients do not show
// their limits, but the delay shows when a request reaches the transport.
type throttle struct {
	hook func(time.Duration)
	log  *zap.Logger
	said atomic.Bool
}

// noticeable is the least delay that is reported. Shorter ones have other causes.
const noticeable = 200 * time.Millisecond

// watch returns the context for a request. Call it just before the client.
func (t *throttle) watch(ctx context.Context) context.Context {
	began := time.Now()
	var sent atomic.Bool // the client may retry
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		if sent.Swap(true) {
			return
		}
		if wait := time.Since(began); wait >= noticeable {
			t.waited(wait)
		}
	}})
}

func (t *throttle) waited(wait time.Duration) {
	t.hook(wait)
	if !t.said.Swap(true) {
		t.log.Warn("the client holds the sharder's requests back: raise QPS and Burst of its rest.Config, or set QPS "+
			"to -1", zap.Duration("wait", wait))
	}
}

// slowLimit is a rate of requests per second that is too low for a sharder.
const slowLimit = 50

// warnOfLimit logs a warning if the client for Leases, likely made from the same configuration as
// the other, has a low rate limit.
func (s *Sharder) warnOfLimit() {
	limiter := s.kube.CoreV1().RESTClient().GetRateLimiter()
	if limiter == nil {
		return
	}
	if qps := limiter.QPS(); qps > 0 && qps < slowLimit {
		s.config.Logger.Warn("the client is limited to few requests per second: each object takes at least one; "+
			"raise QPS and Burst of its rest.Config, or set QPS to -1", zap.Float32("qps", qps))
	}
}
