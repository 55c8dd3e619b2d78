package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/view"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

const (
	// page is how many objects are read at a time.
	page = 500
	// lists is how many resources are listed at a time.
	lists = 8
)

// Cluster reads from one API server.
type Cluster struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	Mapper   meta.RESTMapper
	// Listable returns all resources that can be listed.
	Listable func() ([]view.Kind, error)
	// Review returns those of these rights that the user lacks.
	Review func(ctx context.Context, rights []Right) ([]Right, error)
	// Now is the time by which ages are counted.
	Now func() time.Time
}

// New returns the cluster of a client configuration.
func New(config *rest.Config, mapper meta.RESTMapper, discover discovery.DiscoveryInterface) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1                                      // a ring is found by a list of each resource
	config.WarningHandlerWithContext = rest.NoWarnings{} // such as that Endpoints are deprecated
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: %w", err)
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: %w", err)
	}
	dynamics, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: %w", err)
	}
	return &Cluster{
		Kube: kube, Metadata: objects, Dynamic: dynamics, Mapper: mapper, Now: time.Now,
		Listable: func() ([]view.Kind, error) { return listable(discover) },
		Review:   func(ctx context.Context, rights []Right) ([]Right, error) { return review(ctx, kube, rights) },
	}, nil
}

// listable returns the resources that the API server can list, in their preferred versions. An API
// group that does not answer, as one of an aggregated server that is down, is an error: the ring's
// objects may be there.
func listable(d discovery.DiscoveryInterface) ([]view.Kind, error) {
	all, err := discovery.ServerPreferredResources(d)
	if err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: ask for the API server's resources: %w", err)
	}
	var kinds []view.Kind
	for _, list := range all {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: %w", err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") || r.Name == "events" {
				continue
			}
			kinds = append(kinds, view.Kind{
				GroupVersionResource: gv.WithResource(r.Name), Kind: gv.WithKind(r.Kind).GroupKind(),
				Namespaced: r.Namespaced,
			})
		}
	}
	return kinds, nil
}

// KindOf resolves a resource or kind as users write it, such as cm or deployments.apps.
func (c *Cluster) KindOf(name string) (view.Kind, error) {
	full, resource := schema.ParseResourceArg(name)
	gvr := resource.WithVersion("")
	if full != nil {
		if found, err := c.Mapper.ResourceFor(*full); err == nil {
			gvr = found
		}
	}
	gvr, err := c.Mapper.ResourceFor(gvr)
	if err != nil {
		return view.Kind{}, fmt.Errorf("kubectl-bellwether: resource %q: %w", name, err)
	}
	return c.kindFor(gvr)
}

func (c *Cluster) kindFor(gvr schema.GroupVersionResource) (view.Kind, error) {
	gvk, err := c.Mapper.KindFor(gvr)
	if err != nil {
		return view.Kind{}, fmt.Errorf("kubectl-bellwether: resource %s: %w", gvr.GroupResource(), err)
	}
	m, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return view.Kind{}, fmt.Errorf("kubectl-bellwether: resource %s: %w", gvr.GroupResource(), err)
	}
	return view.Kind{
		GroupVersionResource: m.Resource, Kind: gvk.GroupKind(),
		Namespaced: m.Scope.Name() == meta.RESTScopeNameNamespace,
	}, nil
}

// Leases reads the Leases of a namespace; empty: of all. They are nil if the user may not.
func (c *Cluster) Leases(ctx context.Context, namespace, selector string, rights *Rights,
) ([]coordinationv1.Lease, error) {
	var all []coordinationv1.Lease
	options := metav1.ListOptions{LabelSelector: selector, Limit: page}
	for {
		list, err := c.Kube.CoordinationV1().Leases(namespace).List(ctx, options)
		if rights.refused(err, Right{"list", coordinationv1.Resource("leases"), namespace}) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: list Leases: %w", err)
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// Status reads everything that is shown of a namespace; empty: of all.
func (c *Cluster) Status(ctx context.Context, namespace string, rights *Rights) (view.Status, error) {
	s := view.Status{Elections: []view.Election{}, Rings: []view.Summary{}}
	leases, err := c.Leases(ctx, namespace, "", rights)
	if err != nil {
		return s, err
	}
	now := c.Now()
	elections := map[string]view.Election{}
	shards := map[string][]view.Shard{}
	var names []string
	for i := range leases {
		l := &leases[i]
		if e, ok := view.ElectionOf(l, now); ok {
			s.Elections = append(s.Elections, e)
			elections[l.Namespace+"/"+l.Name] = e
		}
		name := l.Labels[shardlease.RingLabel]
		if name == "" {
			continue
		}
		shard, err := view.ShardOf(name, l, now)
		if err != nil { // a label that no ring can have
			continue
		}
		at := l.Namespace + "/" + name
		if shards[at] == nil {
			names = append(names, at)
		}
		shards[at] = append(shards[at], shard)
	}
	slices.Sort(names)
	for _, at := range names {
		var election *view.Election
		if e, ok := elections[at+"-sharder"]; ok {
			election = &e
		}
		ns, name, _ := cut(at)
		s.Rings = append(s.Rings, view.RingOf(ns, name, election, shards[at], nil).Summary())
	}
	locks, err := c.Kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: view.LockSelector})
	switch {
	case rights.refused(err, Right{"list", corev1.Resource("configmaps"), namespace}):
	case err != nil:
		return s, fmt.Errorf("kubectl-bellwether: list ConfigMaps: %w", err)
	default:
		for i := range locks.Items {
			s.Elections = append(s.Elections, view.LockOf(&locks.Items[i]))
		}
	}
	published, err := c.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: view.SliceSelector})
	switch {
	case rights.refused(err, Right{"list", discoveryv1.Resource("endpointslices"), namespace}):
	case err != nil:
		return s, fmt.Errorf("kubectl-bellwether: list EndpointSlices: %w", err)
	default:
		s.Services = view.ServicesOf(published.Items)
	}
	s.Fences, err = c.Fences(ctx, rights)
	return s, err
}

func cut(at string) (namespace, name string, ok bool) {
	for i := range at {
		if at[i] == '/' {
			return at[:i], at[i+1:], true
		}
	}
	return "", at, false
}

// Fences reads all NodeFences. They are none if the cluster has no such resource.
func (c *Cluster) Fences(ctx context.Context, rights *Rights) ([]view.Fence, error) {
	fences := []view.Fence{}
	list, err := c.Dynamic.Resource(v1alpha1.Resource()).List(ctx, metav1.ListOptions{})
	switch {
	case rights.refused(err, Right{"list", v1alpha1.Resource().GroupResource(), ""}), apierrors.IsNotFound(err):
		return fences, nil
	case err != nil:
		return nil, fmt.Errorf("kubectl-bellwether: list NodeFences: %w", err)
	}
	for _, u := range list.Items {
		var f v1alpha1.NodeFence
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &f); err != nil {
			return nil, fmt.Errorf("kubectl-bellwether: NodeFence %s: %w", u.GetName(), err)
		}
		fences = append(fences, view.FenceOf(&f))
	}
	return fences, nil
}

// RingQuery says which ring is read, and where its objects are looked for.
type RingQuery struct {
	Namespace, Ring string
	// Election is the name of the Lease of the sharder's election.
	Election string
	// Resources of the ring, and their children. Empty: each listable resource is asked for objects
	// with the ring's labels.
	Resources []view.Kind
	// Namespaces in which objects are looked for. Empty: all. A resource that may not be listed in
	// all namespaces is listed in Namespace only.
	Namespaces []string
	// Selector selects the objects that are distributed. If it is not nil, those without any label of
	// the ring count, too. Only with Resources.
	Selector labels.Selector
	// Key determines the places of objects. Nil: [api.ObjectKey].
	Key api.KeyFunc
}

// ErrNoRing means that there is no Lease of a shard of the ring.
var ErrNoRing = errors.New("kubectl-bellwether: no Lease of a shard of this ring")

// Read is what was read of a ring.
type Read struct {
	view.Ring
	Objects []view.Object
	// Kinds are the resources in which objects were found.
	Kinds []view.Kind
	// Narrowed are the resources that could be listed in the ring's namespace only.
	Narrowed []string
	// Unread are the rights that are missing to look for objects in other resources.
	Unread []Right
	// Others are the other namespaces with Leases of a ring of this name. Objects do not say to which
	// one they belong. OthersUnread means that the user may not list Leases in all namespaces.
	Others       []string
	OthersUnread bool
}

// Members reads the ring without its objects.
func (c *Cluster) Members(ctx context.Context, q RingQuery, rights *Rights) (view.Ring, error) {
	leases, err := c.Leases(ctx, q.Namespace, shardstate.Selector(q.Ring).String(), rights)
	if err != nil {
		return view.Ring{}, err
	}
	now := c.Now()
	var shards []view.Shard
	for i := range leases {
		s, err := view.ShardOf(q.Ring, &leases[i], now)
		if err != nil {
			return view.Ring{}, fmt.Errorf("kubectl-bellwether: %w", err)
		}
		shards = append(shards, s)
	}
	var election *view.Election
	l, err := c.Kube.CoordinationV1().Leases(q.Namespace).Get(ctx, q.Election, metav1.GetOptions{})
	switch {
	case rights.refused(err, Right{"get", coordinationv1.Resource("leases"), q.Namespace}), apierrors.IsNotFound(err):
	case err != nil:
		return view.Ring{}, fmt.Errorf("kubectl-bellwether: get Lease %s/%s: %w", q.Namespace, q.Election, err)
	default:
		if e, ok := view.ElectionOf(l, now); ok {
			election = &e
		}
	}
	r := view.RingOf(q.Namespace, q.Ring, election, shards, nil)
	if len(shards) == 0 && rights.Err() == nil {
		return r, fmt.Errorf("%w: %s in namespace %s", ErrNoRing, q.Ring, q.Namespace)
	}
	return r, nil
}

// Ring reads a ring with its objects. If there is no Lease of a shard, it returns an [ErrNoRing] with
// what was read.
func (c *Cluster) Ring(ctx context.Context, q RingQuery, rights *Rights) (Read, error) {
	members, missing := c.Members(ctx, q, rights)
	if missing != nil && !errors.Is(missing, ErrNoRing) {
		return Read{}, missing
	}
	read, err := c.objects(ctx, q, rights)
	if err != nil {
		return Read{}, err
	}
	var everywhere Rights
	leases, err := c.Leases(ctx, "", shardstate.Selector(q.Ring).String(), &everywhere)
	if err != nil {
		return Read{}, err
	}
	read.OthersUnread = everywhere.Err() != nil
	for _, l := range leases {
		if l.Namespace != q.Namespace && !slices.Contains(read.Others, l.Namespace) {
			read.Others = append(read.Others, l.Namespace)
		}
	}
	slices.Sort(read.Others)
	read.Ring = view.RingOf(q.Namespace, q.Ring, members.Sharder, members.Shards, read.Objects)
	return read, missing
}

// objects reads the objects of the ring.
func (c *Cluster) objects(ctx context.Context, q RingQuery, rights *Rights) (Read, error) {
	kinds, given := q.Resources, len(q.Resources) > 0
	if !given {
		var err error
		if kinds, err = c.Listable(); err != nil {
			return Read{}, err
		}
	}
	var mu sync.Mutex
	var read Read
	var failures []error
	var unread Rights
	var all sync.WaitGroup
	slots := make(chan struct{}, lists)
	for _, k := range kinds {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			objects, narrowed, err := c.objectsOf(ctx, q, k, &unread)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, err)
			}
			read.Objects = append(read.Objects, objects...)
			if len(objects) > 0 {
				read.Kinds = append(read.Kinds, k)
			}
			if narrowed {
				read.Narrowed = append(read.Narrowed, k.GroupResource().String())
			}
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return Read{}, err
	}
	slices.SortFunc(read.Kinds, func(a, b view.Kind) int { return compare(a.String(), b.String()) })
	slices.Sort(read.Narrowed)
	if given { // what the user has named has to be readable
		for _, r := range unread.missing {
			rights.refused(apierrors.NewForbidden(r.Resource, "", nil), r)
		}
	} else {
		read.Unread = unread.missing
	}
	return read, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// objectsOf reads the objects of the ring in one resource. narrowed means that they were looked for
// in the ring's namespace only.
func (c *Cluster) objectsOf(ctx context.Context, q RingQuery, k view.Kind, unread *Rights,
) (objects []view.Object, narrowed bool, err error) {
	namespaces := q.Namespaces
	if len(namespaces) == 0 || !k.Namespaced {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		found, refusal, err := c.list(ctx, q, k, namespace)
		if refusal != nil && namespace == "" && k.Namespaced {
			var narrower []view.Object
			var again error
			if narrower, again, err = c.list(ctx, q, k, q.Namespace); again == nil && err == nil {
				found, refusal, narrowed = narrower, nil, true
			}
		}
		if err != nil {
			return nil, false, err
		}
		unread.refused(refusal, Right{"list", k.GroupResource(), namespace})
		objects = append(objects, found...)
	}
	return objects, narrowed, nil
}

// list reads the objects of the ring in one resource and namespace. refusal says that the user may
// not.
func (c *Cluster) list(ctx context.Context, q RingQuery, k view.Kind, namespace string,
) (objects []view.Object, refusal, err error) {
	// Those with a record, and the children and others that have only the label of a shard.
	selectors := []string{
		api.SealLabel(q.Ring), fmt.Sprintf("%s,!%s", api.ShardLabel(q.Ring), api.SealLabel(q.Ring)),
	}
	if q.Selector != nil {
		unlabelled := fmt.Sprintf("!%s,!%s", api.ShardLabel(q.Ring), api.SealLabel(q.Ring))
		if !q.Selector.Empty() {
			unlabelled += "," + q.Selector.String()
		}
		selectors = append(selectors, unlabelled)
	}
	client := metadata.ResourceInterface(c.Metadata.Resource(k.GroupVersionResource))
	if namespace != "" {
		client = c.Metadata.Resource(k.GroupVersionResource).Namespace(namespace)
	}
	for _, selector := range selectors {
		options := metav1.ListOptions{LabelSelector: selector, Limit: page}
		for {
			list, err := client.List(ctx, options)
			switch {
			case apierrors.IsForbidden(err):
				return nil, err, nil
			case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err): // it is gone, or has no objects
				return objects, nil, nil
			case err != nil:
				return nil, nil, fmt.Errorf("kubectl-bellwether: list %s: %w", k.GroupResource(), err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				if k.Resource == "configmaps" && k.Group == "" && o.Name == sharder.HistoryName(q.Ring) {
					continue // the ring's own, which it does not distribute
				}
				objects = append(objects, view.ObjectOf(q.Ring, k, o, q.Key))
			}
			if options.Continue = list.Continue; options.Continue == "" {
				break
			}
		}
	}
	return objects, nil, nil
}
