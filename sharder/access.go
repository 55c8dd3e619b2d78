package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
func (s *session) checkAccess(ctx context.Context) error {
	refused := map[place]error{}
	var errs []error
	for i, r := range s.graph.All {
		for _, namespace := range r.WatchedNamespaces() {
			err := s.checkPlace(ctx, i, namespace)
			refused[place{i, namespace}] = err
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	kube.RoleOf(ctx).Explain(ctx, err)
	for i, r := range s.resources {
		for _, namespace := range r.WatchedNamespaces() {
			of := append(slices.Clone(s.graph.ChildResources[i]), i)
			stopped := slices.ContainsFunc(of, func(i int) bool { return refused[s.placeOf(i, namespace)] != nil })
			if err != nil && !stopped {
				s.config.Logger.Warn("objects of some resources are not distributed", zap.Error(err))
				return nil
			}
		}
	}
	return err
}

func (s *session) checkPlace(ctx context.Context, index int, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all := s.client(index, namespace)
	each := all
	if namespace == "" && s.graph.All[index].Namespaced {
		each = s.client(index, s.config.Namespace) // a request about one object names its namespace
	}
	var errs []error
	check := func(verb string, err error) bool {
		switch {
		case err == nil, ctx.Err() != nil:
			return true
		case kube.Forbidden(err):
			gr := s.graph.All[index].GVR.GroupResource()
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
			s.graph.All[index].GVR.String(), err)
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
