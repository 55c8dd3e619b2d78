package endpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// publisher reads and writes the objects that clients of the Service see.
type publisher struct {
	client  kubernetes.Interface
	service types.NamespacedName
	legacy  bool
}

// publication is the set of our objects that clients of the Service see.
type publication struct {
	service *corev1.Service
	slices  []*discoveryv1.EndpointSlice // ours
	legacy  *legacyEndpoints             // nil if it does not exist or PublishEndpoints is not set
	// conflict is why the Endpoints object is not written.
	conflict error
	// selected is ErrSelector if the Service has a selector. Its Endpoints object then belongs to
	// Kubernetes.
	selected error
}

// endpoints returns the published endpoints, sorted.
func (p publication) endpoints() []Endpoint {
	all := endpointsOf(p.slices)
	slices.SortFunc(all, Endpoint.compare)
	return slices.Compact(all)
}

// read returns what is published. Call it before reading the store, so that our write conflicts if
// another instance has published a later view of the store.
func (p *publisher) read(ctx context.Context) (publication, error) {
	var now publication
	var err error
	now.service, err = p.client.CoreV1().Services(p.service.Namespace).Get(ctx, p.service.Name, metav1.GetOptions{})
	if err = kube.Named(now.service, p.service.Name, err); err != nil {
		if services.absent(err, p.service.Name) {
			return publication{}, fmt.Errorf("endpoints: get Service %v: %w", p.service, ErrNoService)
		}
		return publication{}, services.failed(ctx, "get", p.service, err)
	}
	if len(now.service.Spec.Selector) > 0 {
		now.selected = fmt.Errorf("endpoints: Service %v: %w", p.service, ErrSelector)
	}
	list, err := p.client.DiscoveryV1().EndpointSlices(p.service.Namespace).
		List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + p.service.Name + "," +
				discoveryv1.LabelManagedBy + "=" + ManagedBy})
	if err = kube.Versioned(list, err); err != nil {
		return publication{}, endpointSlices.failed(ctx, "list", p.service, err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; p.ours(s) {
			now.slices = append(now.slices, s)
		}
	}
	if p.legacy && now.selected == nil {
		now.legacy, now.conflict, err = p.readLegacy(ctx)
	}
	return now, err
}

// ours reports whether a slice is marked as ours.
func (p *publisher) ours(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelServiceName] == p.service.Name && s.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

func (p *publisher) readLegacy(ctx context.Context) (e *legacyEndpoints, conflict, err error) {
	e, err = p.client.CoreV1().Endpoints(p.service.Namespace).Get(ctx, p.service.Name, metav1.GetOptions{})
	err = kube.Named(e, p.service.Name, err)
	switch {
	case endpointsKind.absent(err, p.service.Name):
		return nil, nil, nil
	case err != nil:
		return nil, nil, endpointsKind.failed(ctx, "get", p.service, err)
	case e.Labels[legacyManagedBy] != ManagedBy:
		return nil, fmt.Errorf("endpoints: Endpoints %v: %w: it lacks the label %s=%s", p.service, ErrForeign,
			legacyManagedBy, ManagedBy), nil
	}
	return e, nil, nil
}

// publish replaces what is published by these endpoints and returns how many objects it wrote. Each
// write applies only to the version that was read; otherwise the error is an errConflict. A failed
// write stops only those that hide what it would have shown.
func (p *publisher) publish(ctx context.Context, now publication, all []Endpoint) (writes int, err error) {
	var errs []error
	wanted := sliceSet(now.service, all)
	left, covered := changes(now.slices, wanted), newCoverage(now.slices, wanted)
	for i := covered.next(left); i >= 0; i = covered.next(left) {
		c := left[i]
		left = slices.Delete(left, i, i+1)
		if err := p.write(ctx, c); err != nil {
			errs = append(errs, err)
			covered.failed(c)
			continue
		}
		covered.done(c)
		writes++
	}
	if p.legacy && now.conflict == nil && now.selected == nil {
		if wanted := newLegacy(now.service, all); now.legacy == nil || !sameLegacy(now.legacy, wanted) {
			if err := p.writeLegacy(ctx, now.legacy, wanted); err != nil {
				errs = append(errs, err)
			} else {
				writes++
			}
		}
	}
	return writes, errors.Join(errs...)
}

func (p *publisher) at(slice string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.service.Namespace, Name: slice}
}

// write applies a change of a slice.
func (p *publisher) write(ctx context.Context, c change) error {
	api := p.client.DiscoveryV1().EndpointSlices(p.service.Namespace)
	var verb, name string
	var answer *discoveryv1.EndpointSlice
	var err error
	switch {
	case c.before == nil:
		verb, name = "create", c.after.Name
		answer, err = api.Create(ctx, c.after, metav1.CreateOptions{})
	case c.after == nil:
		verb, name = "delete", c.before.Name
		err = api.Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &c.before.UID, ResourceVersion: &c.before.ResourceVersion},
		})
	default:
		verb, name = "update", c.after.Name
		answer, err = api.Update(ctx, c.after, metav1.UpdateOptions{})
	}
	if answer != nil {
		err = kube.Named(answer, name, err)
	}
	about := fmt.Sprintf("EndpointSlice %s/%s", p.service.Namespace, name)
	switch {
	case apierrors.IsAlreadyExists(err):
		return p.explainExisting(ctx, name)
	case apierrors.IsConflict(err), endpointSlices.absent(err, name):
		return fmt.Errorf("endpoints: %s %s: %w: %w", verb, about, errConflict, err)
	case err != nil:
		return endpointSlices.failed(ctx, verb, p.at(name), err)
	}
	return nil
}

// explainExisting returns the error for a slice that exists, although the list did not contain it.
func (p *publisher) explainExisting(ctx context.Context, name string) error {
	about := fmt.Sprintf("EndpointSlice %s/%s", p.service.Namespace, name)
	s, err := p.client.DiscoveryV1().EndpointSlices(p.service.Namespace).Get(ctx, name, metav1.GetOptions{})
	err = kube.Named(s, name, err)
	switch {
	case endpointSlices.absent(err, name), err == nil && p.ours(s):
		return fmt.Errorf("endpoints: create %s: %w", about, errConflict)
	case err != nil:
		return endpointSlices.failed(ctx, "get", p.at(name), err)
	}
	return fmt.Errorf("endpoints: create %s: %w: its label %s is %q, not %q", about, ErrForeign,
		discoveryv1.LabelManagedBy, s.Labels[discoveryv1.LabelManagedBy], ManagedBy)
}

func (p *publisher) writeLegacy(ctx context.Context, standing, wanted *legacyEndpoints) error {
	api := p.client.CoreV1().Endpoints(p.service.Namespace)
	verb := "create"
	var answer *legacyEndpoints
	var err error
	if standing == nil {
		answer, err = api.Create(ctx, wanted, metav1.CreateOptions{})
	} else {
		verb = "update"
		answer, err = api.Update(ctx, overwrittenLegacy(standing, wanted), metav1.UpdateOptions{})
	}
	err = kube.Named(answer, p.service.Name, err)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err),
		endpointsKind.absent(err, p.service.Name):
		return fmt.Errorf("endpoints: %s Endpoints %v: %w: %w", verb, p.service, errConflict, err)
	case err != nil:
		return endpointsKind.failed(ctx, verb, p.service, err)
	}
	return nil
}
