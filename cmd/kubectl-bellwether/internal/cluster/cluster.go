package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
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
// group that does not answer, such as one of an aggregated server that is down, is an error,
// because it may have objects of the ring.
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
