package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Uninstall is the removal of a ring from its objects, its Leases and its history.
//
// Nothing is decided on what was read before, because it may be stale by the time of a write. The
// removal runs under the election of the ring's sharder, so no sharder assigns anything meanwhile,
// and sharder.StripLabels itself proves that each shard has ended before it touches an object.
// Patches and deletions name the UID and the version that they were decided on.
type Uninstall struct {
	Query RingQuery
	Read  Read
	// Unnamed are the resources with objects of the ring that Query.Resources does not name.
	Unnamed []string
	// Sure means that the user has named the Lease of the election. Otherwise it has to exist,
	// because a sharder that is elected on another one could run beside the removal.
	Sure bool
	// Usual is the usual Lease of the ring's election, if it exists and is not Query.Election.
	Usual string
	// Timeout is how long to wait for the election and for the proof that shards have ended.
	Timeout time.Duration
	// Logger receives what the removal waits for.
	Logger *zap.Logger
}

// Look reads what there is to remove. Without a Lease of a shard, that is what an unfinished removal has left.
// If it finds nothing, or nothing but an election that the user has named, the error is an [ErrNoRing].
func (u *Uninstall) Look(ctx context.Context, c *Cluster) error {
	var rights Rights
	var err error
	u.Read, err = c.Ring(ctx, u.Query, &rights)
	switch {
	case !errors.Is(err, ErrNoRing):
	case len(u.Read.Objects) > 0, u.Read.Sharder != nil && !u.Sure:
		err = nil
	default:
		there, failure := c.hasHistory(ctx, u.Query, &rights)
		switch {
		case there, failure != nil:
			err = failure
		case u.Read.Sharder != nil: // it may be that of another ring, or of no ring
			err = fmt.Errorf("%w; the Lease %s alone is not deleted: if it is of this ring, delete it with kubectl",
				err, u.Query.Election)
		}
	}
	if err = errors.Join(err, rights.Err()); err != nil {
		return err
	}
	u.Unnamed = u.unnamed(ctx, c)
	return u.lookForUsual(ctx, c)
}

// Stays reports whether an existing Lease of the election is not deleted because its name, the only thing
// that could, does not show that it is of this ring.
func (u Uninstall) Stays() bool { return u.Query.Election != UsualElection(u.Query.Ring) }

// lookForUsual finds the Lease on which the ring's sharder may be elected, unless the user has named it.
func (u *Uninstall) lookForUsual(ctx context.Context, c *Cluster) error {
	if !u.Stays() {
		return nil
	}
	name, resource := UsualElection(u.Query.Ring), coordinationv1.Resource("leases")
	l, err := c.Kube.CoordinationV1().Leases(u.Query.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch err = kube.Named(l, name, err); {
	case kube.Absent(err, resource, name):
		return nil
	case err != nil:
		return fmt.Errorf("kubectl-bellwether: get Lease %s/%s: %w", u.Query.Namespace, name, err)
	}
	u.Usual = name
	return nil
}

// unnamed returns the resources with objects of the ring that the user, who named others, has not
// named. It leaves out those that the user may not list, because the user knows the ring, and
// cluster-scoped ones if another ring of this name may have objects there.
func (u Uninstall) unnamed(ctx context.Context, c *Cluster) (resources []string) {
	if len(u.Query.Resources) == 0 {
		return nil
	}
	kinds, err := c.Listable()
	kinds = slices.DeleteFunc(kinds, func(k view.Kind) bool {
		return !k.Namespaced && (len(u.Read.Others) > 0 || u.Read.OthersUnread) ||
			slices.ContainsFunc(u.Query.Resources, func(named view.Kind) bool {
				return named.GroupResource() == k.GroupResource()
			})
	})
	query := u.Query
	query.Resources = nil
	read, failure := c.search(ctx, query, kinds)
	if err := errors.Join(err, failure); err != nil {
		u.Logger.Warn("objects of the ring were not looked for in all other resources", zap.Error(err))
	}
	for _, k := range read.Kinds {
		resources = append(resources, k.GroupResource().String())
	}
	return resources
}

// hasHistory reports whether the ring's history exists.
func (c *Cluster) hasHistory(ctx context.Context, q RingQuery, rights *Rights) (bool, error) {
	name, resource := sharder.HistoryName(q.Ring), corev1.Resource("configmaps")
	m, err := c.Kube.CoreV1().ConfigMaps(q.Namespace).Get(ctx, name, metav1.GetOptions{})
	err = kube.Named(m, name, err)
	switch {
	case rights.refused(err, right("get", resource, q.Namespace)), kube.Absent(err, resource, name):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("kubectl-bellwether: get ConfigMap %s/%s: %w", q.Namespace, name, err)
	}
	return true, nil
}

// Rights returns the rights that the removal needs.
func (u Uninstall) Rights() []Right {
	var rights []Right
	add := func(gr schema.GroupResource, namespace string, verbs ...string) {
		rights = append(rights, kube.RightsOn(gr, namespace, "", verbs...)...)
	}
	add(coordinationv1.Resource("leases"), u.Query.Namespace, "get", "list", "watch", "create", "update", "delete")
	add(corev1.Resource("configmaps"), u.Query.Namespace, "get", "delete")
	if len(u.kinds()) == 0 {
		add(corev1.Resource("configmaps"), u.Query.Namespace, "list", "watch", "patch")
	}
	for _, k := range u.kinds() {
		namespaces := u.Query.Namespaces
		if len(namespaces) == 0 || !k.Namespaced {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			add(k.GroupResource(), namespace, "get", "list", "watch", "patch")
		}
	}
	return rights
}

// kinds are the resources that are stripped.
func (u Uninstall) kinds() []view.Kind {
	if len(u.Query.Resources) > 0 {
		return u.Query.Resources
	}
	return u.Read.Kinds
}

// Obstacles returns why the ring must not be removed now, in words. Without any, the removal may be tried.
func (u Uninstall) Obstacles() (all []string) {
	for _, s := range u.Read.Shards {
		if s.MayWork() {
			all = append(all, fmt.Sprintf("shard %s is %s: end all replicas first", s.Name, s.State))
		}
	}
	if e := u.Read.Sharder; e != nil && e.State == view.Held {
		all = append(all, fmt.Sprintf("%s leads the election of the sharder: end all replicas first", e.Holder))
	}
	if u.Read.Sharder == nil && !u.Sure {
		all = append(all, fmt.Sprintf("there is no Lease %s/%s of the sharder's election: name it with --election",
			u.Query.Namespace, u.Query.Election))
	}
	if u.Usual != "" {
		all = append(all, fmt.Sprintf("there is a Lease %s/%s, and --election names another one: %s; leave out "+
			"--election, or delete that Lease if the ring's sharder was not elected on it",
			u.Query.Namespace, u.Usual, u.Query.Election))
	}
	if u.reachesOtherNamespaces() {
		switch {
		case len(u.Read.Others) > 0:
			all = append(all, fmt.Sprintf("namespaces %q also have a ring of this name, whose objects would be "+
				"stripped: name the namespaces of this ring's objects with --object-namespace", u.Read.Others))
		case u.Read.OthersUnread:
			all = append(all, "other namespaces may have a ring of this name, whose objects would be stripped, and "+
				"you may not list Leases there: name the namespaces of this ring's objects with --object-namespace")
		}
	}
	for _, resource := range u.Unnamed {
		all = append(all, fmt.Sprintf("the ring also has objects in %s: name all of its resources with "+
			"--resource, or none", resource))
	}
	for _, r := range u.Read.Unread {
		all = append(all, fmt.Sprintf("there may be objects of the ring in %s, which you may not list: name the "+
			"ring's resources with --resource", r.Resource))
	}
	for _, resource := range u.Read.Unserved {
		all = append(all, fmt.Sprintf("there may be objects of the ring in %s, which the API server has named and "+
			"does not find: try again, or name the ring's resources with --resource", resource))
	}
	for _, resource := range u.Read.Narrowed {
		all = append(all, fmt.Sprintf("you may list %s in namespace %s only: name the namespaces of the ring's "+
			"objects with --object-namespace", resource, u.Query.Namespace))
	}
	return all
}

// reachesOtherNamespaces reports whether objects are stripped that another ring of this name may
// have, whose shards are not proved to have ended.
func (u Uninstall) reachesOtherNamespaces() bool {
	return len(u.Query.Namespaces) == 0 ||
		slices.ContainsFunc(u.kinds(), func(k view.Kind) bool { return !k.Namespaced })
}

// resources are those of the ring as its sharder has them, with children belonging to a root. A
// sharder has at least one. If no object has a label of the ring, it strips nothing but still
// proves that the shards of the history have ended.
func (u Uninstall) resources() []api.Resource {
	if len(u.kinds()) == 0 {
		return []api.Resource{{
			GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespaces: []string{u.Query.Namespace},
		}}
	}
	var roots []api.Resource
	var namespaced []bool
	var children []view.Kind
	for _, k := range u.kinds() {
		resource := k.GroupResource().String()
		i := slices.IndexFunc(u.Read.Resources, func(c view.Count) bool { return c.Resource == resource })
		if i >= 0 && u.Read.Resources[i].Objects == 0 {
			children = append(children, k)
			continue
		}
		roots = append(roots, api.Resource{GVR: k.GroupVersionResource, Namespaces: u.namespaces(k)})
		namespaced = append(namespaced, k.Namespaced)
	}
	for _, k := range children {
		placed := false
		for i := range roots {
			if k.Namespaced || !namespaced[i] {
				roots[i].Children = append(roots[i].Children, k.GroupVersionResource)
				placed = true
			}
		}
		if !placed {
			roots = append(roots, api.Resource{GVR: k.GroupVersionResource, Namespaces: u.namespaces(k)})
			namespaced = append(namespaced, k.Namespaced)
		}
	}
	return roots
}

func (u Uninstall) namespaces(k view.Kind) []string {
	if !k.Namespaced {
		return nil
	}
	return u.Query.Namespaces
}

// errNotElected means that the election was not won in time.
var errNotElected = errors.New("the election of the sharder was not won")

// Run removes the ring. config is that of the user, without a guard. A second run continues where
// the first one ended.
func (u Uninstall) Run(ctx context.Context, c *Cluster, config *rest.Config) error {
	if obstacles := u.Obstacles(); len(obstacles) > 0 {
		return fmt.Errorf("kubectl-bellwether: uninstall: %s", obstacles[0])
	}
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: u.Query.Namespace, Name: u.Query.Election, Logger: u.Logger,
		OnLost: func(error) {}, // Run tries again
	})
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	guarded := rest.CopyConfig(config)
	guarded.QPS = -1
	guarded.Wrap(elector.WrapTransport)
	client, err := kubernetes.NewForConfig(guarded)
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	objects, err := metadata.NewForConfig(guarded)
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	s, err := sharder.New(client, objects, c.Mapper, sharder.Config{
		Ring: u.Query.Ring, Namespace: u.Query.Namespace, Resources: u.resources(), Logger: u.Logger,
	})
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	result := errNotElected
	err = elector.Run(ctx, func(ctx context.Context) error {
		result = s.StripLabels(ctx)
		if result == nil {
			result = u.delete(ctx, client)
		}
		return result
	})
	if leader, ok := elector.Leader(); ok && errors.Is(result, errNotElected) {
		result = fmt.Errorf("%w: %q leads", result, leader)
	}
	if result == nil && err == nil {
		err = u.deleteElection(ctx, c.Kube)
	}
	if result == nil && err == nil {
		err = u.verify(ctx, c)
	}
	if err = errors.Join(result, err); ctx.Err() != nil && err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: not done within %v (--timeout), run it again: %w", u.Timeout,
			err)
	} else if err != nil {
		return fmt.Errorf("kubectl-bellwether: uninstall: %w", err)
	}
	return nil
}

// delete deletes the history and the Leases of shards that have ended. It runs under the election,
// after all objects were stripped. If a replica has started meanwhile, it holds a Lease and has no
// objects, and nothing is deleted.
func (u Uninstall) delete(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.CoordinationV1().Leases(u.Query.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: shardstate.Selector(u.Query.Ring).String()})
	if err = kube.Versioned(list, err); err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	for i := range list.Items {
		s, err := view.ShardOf(u.Query.Ring, &list.Items[i], time.Now())
		if err != nil {
			return err
		}
		if !s.Ended() {
			return fmt.Errorf("the objects are stripped, but shard %s is %s: a replica has started meanwhile, so the "+
				"Leases and the history stay", s.Name, s.State)
		}
	}
	name := sharder.HistoryName(u.Query.Ring)
	m, err := client.CoreV1().ConfigMaps(u.Query.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err = kube.Named(m, name, err); err == nil {
		err = client.CoreV1().ConfigMaps(u.Query.Namespace).Delete(ctx, name, this(m))
	}
	if err != nil && !kube.Absent(err, corev1.Resource("configmaps"), name) {
		return fmt.Errorf("delete ConfigMap %s: %w", name, err)
	}
	for i := range list.Items {
		l := &list.Items[i]
		err := client.CoordinationV1().Leases(l.Namespace).Delete(ctx, l.Name, this(l))
		if err != nil && !kube.Absent(err, coordinationv1.Resource("leases"), l.Name) {
			return fmt.Errorf("delete Lease %s: %w", l.Name, err)
		}
	}
	return nil
}

// deleteElection deletes the Lease of the election, which this process has released, unless another
// candidate has taken it. One that stays is kept if it existed before, which its count of terms shows.
func (u Uninstall) deleteElection(ctx context.Context, client kubernetes.Interface) error {
	leases, resource := client.CoordinationV1().Leases(u.Query.Namespace), coordinationv1.Resource("leases")
	l, err := leases.Get(ctx, u.Query.Election, metav1.GetOptions{})
	err = kube.Named(l, u.Query.Election, err)
	if kube.Absent(err, resource, u.Query.Election) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Lease %s: %w", u.Query.Election, err)
	}
	r := lease.RecordOf(l)
	if u.Stays() && r.Transitions() > 0 {
		return nil
	}
	if !r.Released() {
		return fmt.Errorf("the objects are stripped, but %q leads the election of the sharder: a replica has started "+
			"meanwhile", r.Holder())
	}
	if err := leases.Delete(ctx, l.Name, this(l)); err != nil && !kube.Absent(err, resource, l.Name) {
		return fmt.Errorf("delete Lease %s: %w", l.Name, err)
	}
	return nil
}

// this deletes one version of one object.
func this(o metav1.Object) metav1.DeleteOptions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// verify looks once more for what is left.
func (u Uninstall) verify(ctx context.Context, c *Cluster) error {
	var rights Rights
	left, err := c.Ring(ctx, u.Query, &rights)
	if err != nil && !errors.Is(err, ErrNoRing) {
		return err
	}
	if n := len(left.Objects); n > 0 {
		return fmt.Errorf("%d objects still have labels of the ring, %s among them", n,
			left.Objects[0].Resource+"/"+left.Objects[0].Name)
	}
	if len(left.Unserved) > 0 {
		return fmt.Errorf("the API server does not find %q: objects there may still have labels of the ring",
			left.Unserved)
	}
	if unnamed := u.unnamed(ctx, c); len(unnamed) > 0 {
		return fmt.Errorf("objects of %s still have labels of the ring", strings.Join(unnamed, " and of "))
	}
	return rights.Err()
}
