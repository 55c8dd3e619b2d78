package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// absentName is the name of an object that does not exist. The server's answer about it shows which
// requests are allowed.
const absentName = "bellwether-checks-its-access"

// checkAccess tries each request that a sharder needs, on objects that do not exist, and returns
// what the server refuses. Without it, a sharder that may not read or change objects would wait
// forever. A refusal that concerns one resource and its children, or one namespace, does not stop the
// others.
func (o *objects) checkAccess(ctx context.Context) error {
	refused := map[place]error{}
	var errs []error
	for i, r := range o.graph.All {
		for _, namespace := range r.WatchedNamespaces() {
			err := o.checkPlace(ctx, i, namespace)
			refused[place{i, namespace}] = err
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	kube.RoleOf(ctx).Explain(ctx, err)
	for i, r := range o.roots {
		for _, namespace := range r.WatchedNamespaces() {
			of := append(slices.Clone(o.graph.ChildResources[i]), i)
			stopped := slices.ContainsFunc(of, func(i int) bool { return refused[o.placeOf(i, namespace)] != nil })
			if err != nil && !stopped {
				o.config.Logger.Warn("objects of some resources are not distributed", zap.Error(err))
				return nil
			}
		}
	}
	return err
}

func (o *objects) checkPlace(ctx context.Context, index int, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, kube.RequestTimeout)
	defer cancel()
	all := o.of(index, namespace)
	each := all
	if namespace == "" && o.graph.All[index].Namespaced {
		each = o.of(index, o.config.Namespace) // a request about one object names its namespace
	}
	var errs []error
	check := func(verb string, err error) bool {
		switch {
		case err == nil, ctx.Err() != nil:
			return true
		case kube.Forbidden(err):
			gr := o.graph.All[index].GVR.GroupResource()
			errs = append(errs, &kube.RequestError{
				Right: kube.Right{Verb: verb, Resource: gr, Namespace: namespace}, Object: gr.String(), Err: err,
			})
			return false
		}
		return true // may be temporary
	}
	list, err := all.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil && apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not have %s: is its CustomResourceDefinition installed? %w",
			o.graph.All[index].GVR.String(), err)
	}
	if check("list", err) && err == nil {
		w, err := all.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if check("watch", err) && err == nil {
			w.Stop()
		}
	}
	_, err = each.Get(ctx, absentName, metav1.GetOptions{})
	check("get", err)
	_, err = each.Patch(ctx, absentName, types.MergePatchType, []byte(`{}`),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	check("patch", err)
	return errors.Join(errs...)
}

// rights are those that a replica needs for the ring. The sharder needs all that its shard needs.
func (c Config) rights() []kube.Right {
	all := kube.RightsOn(coordinationv1.Resource("leases"), c.Namespace, "",
		"get", "list", "watch", "create", "update", "delete")
	all = append(all, kube.RightsOn(corev1.Resource("configmaps"), c.Namespace, HistoryName(c.Ring),
		"create", "get", "update")...)
	for _, r := range c.Resources {
		namespaces := r.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			for _, of := range append([]schema.GroupVersionResource{r.GVR}, r.Children...) {
				all = append(all, kube.RightsOn(of.GroupResource(), namespace, "", "get", "list", "watch", "patch")...)
			}
			if c.Events != nil {
				all = append(all, kube.EventRights(namespace)...)
			}
		}
	}
	return all
}

// LogMissingRights returns a context for parts of a program that run until end is called. When the
// API server refuses a request of one of them, such as a lease, all rights that these parts and the
// sharder lack are logged in one line.
func (s *Sharder) LogMissingRights(ctx context.Context) (reviewed context.Context, end func()) {
	if role := kube.RoleOf(ctx); role != nil {
		role.Needs(s.kube, s.config.rights)
		return ctx, func() {}
	}
	role := kube.NewRole(s.config.Logger)
	role.Needs(s.kube, s.config.rights)
	return role.Begin(ctx)
}
