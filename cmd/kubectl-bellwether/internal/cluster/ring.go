package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// RingQuery names the ring to read and where to look for its objects.
type RingQuery struct {
	Namespace, Ring string
	// Election is the name of the Lease of the sharder's election.
	Election string
	// Resources of the ring and their children. If empty, objects with the ring's labels are looked
	// for in each listable resource.
	Resources []view.Kind
	// Namespaces in which objects are looked for, all if empty. A resource that may not be listed
	// in all namespaces is listed in Namespace only.
	Namespaces []string
	// Selector selects the objects that are distributed. If it is not nil, those without any label
	// of the ring count as well. It requires Resources.
	Selector labels.Selector
	// Key determines the places of objects. Default: [api.ObjectKey].
	Key api.KeyFunc
}

// UsualElection returns the name of the Lease of a ring's sharder, unless its program has chosen another one.
func UsualElection(ring string) string { return ring + "-sharder" }

// ErrNoRing means that no Lease of a shard of the ring exists.
var ErrNoRing = errors.New("kubectl-bellwether: no Lease of a shard of this ring")

// Read is what was read of a ring.
type Read struct {
	view.Ring
	Objects []view.Object
	// Kinds are the resources in which objects were found.
	Kinds []view.Kind
	// Narrowed are the resources that could be listed in the ring's namespace only.
	Narrowed []string
	// Unread are the missing rights to look for objects in other resources.
	Unread []Right
	// Unserved are the resources that the API server has named but does not find. They may still
	// have objects, because it, or a proxy before it, answers so while it starts.
	Unserved []string
	// Others are the other namespaces with Leases of a ring of this name. Objects do not show to which
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
	err = kube.Named(l, q.Election, err)
	switch {
	case rights.refused(err, right("get", coordinationv1.Resource("leases"), q.Namespace)), apierrors.IsNotFound(err):
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

// Ring reads a ring with its objects. Without a Lease of a shard, it returns an [ErrNoRing] with what was read.
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
	read, err := c.search(ctx, q, kinds)
	if err != nil {
		return Read{}, err
	}
	if given { // what the user has named has to be readable
		for _, r := range read.Unread {
			rights.refused(apierrors.NewForbidden(r.Resource, "", nil), r)
		}
		read.Unread = nil
	}
	return read, nil
}

// search reads the objects of the ring in these resources. A result beside an error is incomplete.
func (c *Cluster) search(ctx context.Context, q RingQuery, kinds []view.Kind) (Read, error) {
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
			switch {
			case len(q.Resources) == 0 && (apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)):
				read.Unserved = append(read.Unserved, k.GroupResource().String())
			case err != nil:
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
	slices.SortFunc(read.Kinds, func(a, b view.Kind) int { return strings.Compare(a.String(), b.String()) })
	slices.Sort(read.Narrowed)
	slices.Sort(read.Unserved)
	read.Unread = unread.missing
	return read, errors.Join(failures...)
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
		unread.refused(refusal, right("list", k.GroupResource(), namespace))
		objects = append(objects, found...)
	}
	return objects, narrowed, nil
}

// list reads the objects of the ring in one resource and namespace. refusal is set if the user may not.
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
			err = kube.Versioned(list, err)
			switch {
			case kube.Forbidden(err):
				return nil, err, nil
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
