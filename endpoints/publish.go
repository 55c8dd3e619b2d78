package endpoints

import (
	"cmp"
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
	switch err = kube.Named(now.service, p.service.Name, err); {
	case serviceKind.absent(err, p.service):
		return publication{}, fmt.Errorf("endpoints: get Service %v: %w", p.service, ErrNoService)
	case err != nil:
		return publication{}, serviceKind.failed(ctx, "get", p.service, err)
	}
	if len(now.service.Spec.Selector) > 0 {
		now.selected = fmt.Errorf("endpoints: Service %v: %w", p.service, ErrSelector)
	}
	list, err := p.client.DiscoveryV1().EndpointSlices(p.service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + p.service.Name + "," +
			discoveryv1.LabelManagedBy + "=" + ManagedBy,
	})
	if err = kube.Versioned(list, err); err != nil {
		return publication{}, sliceKind.failed(ctx, "list", p.service, err)
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
	switch err = kube.Named(e, p.service.Name, err); {
	case endpointsKind.absent(err, p.service):
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
	wrote := func(err error) bool {
		if err == nil {
			writes++
		} else {
			errs = append(errs, err)
		}
		return err == nil
	}
	wanted := sliceSet(now.service, all)
	left, covered := changes(now.slices, wanted), newCoverage(now.slices, wanted)
	for i := covered.next(left); i >= 0; i = covered.next(left) {
		c := left[i]
		left = slices.Delete(left, i, i+1)
		if wrote(p.write(ctx, c)) {
			covered.done(c)
		} else {
			covered.failed(c)
		}
	}
	if p.legacy && now.conflict == nil && now.selected == nil {
		if wanted := newLegacy(now.service, all); now.legacy == nil || !sameLegacy(now.legacy, wanted) {
			wrote(p.writeLegacy(ctx, now.legacy, wanted))
		}
	}
	return writes, errors.Join(errs...)
}

// write applies a change of a slice.
func (p *publisher) write(ctx context.Context, c change) error {
	api := p.client.DiscoveryV1().EndpointSlices(p.service.Namespace)
	verb, answer := "update", c.before
	var err error
	switch {
	case c.before == nil:
		verb = "create"
		answer, err = api.Create(ctx, c.after, metav1.CreateOptions{})
	case c.after == nil:
		verb = "delete"
		err = api.Delete(ctx, c.before.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &c.before.UID, ResourceVersion: &c.before.ResourceVersion},
		})
	default:
		answer, err = api.Update(ctx, c.after, metav1.UpdateOptions{})
	}
	at := types.NamespacedName{Namespace: p.service.Namespace, Name: cmp.Or(c.after, c.before).Name}
	if err = kube.Named(answer, at.Name, err); apierrors.IsAlreadyExists(err) {
		return p.explainExisting(ctx, at)
	}
	return sliceKind.failed(ctx, verb, at, err)
}

// explainExisting returns the error for a slice that exists, although the list did not contain it.
func (p *publisher) explainExisting(ctx context.Context, at types.NamespacedName) error {
	s, err := p.client.DiscoveryV1().EndpointSlices(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	foreign := ""
	if err = kube.Named(s, at.Name, err); err == nil && !p.ours(s) {
		foreign = fmt.Sprintf("its label %s is %q, not %q", discoveryv1.LabelManagedBy,
			s.Labels[discoveryv1.LabelManagedBy], ManagedBy)
	}
	return sliceKind.existing(ctx, at, err, foreign)
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
	return endpointsKind.failed(ctx, verb, p.service, kube.Named(answer, p.service.Name, err))
}
