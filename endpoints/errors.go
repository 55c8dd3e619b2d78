package endpoints

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrSelector is returned for a Service with a selector, because Kubernetes publishes the Pods that
	// it selects. Nothing is written, but instances that registered before still withdraw when they end.
	ErrSelector = errors.New("endpoints: the Service has a selector, so Kubernetes publishes its endpoints")

	// ErrNoService is returned by a round if the Service does not exist. The instance registers
	// anyway and is published once the Service exists.
	ErrNoService = errors.New("endpoints: the Service does not exist")

	// ErrForeign is returned if an object that has one of our names is not marked as ours. It is left alone.
	ErrForeign = errors.New("endpoints: an object with this name is managed by another controller")

	// ErrFull is returned if the store has no room for this instance's entry. Instances in the
	// store can still refresh theirs.
	ErrFull = errors.New("endpoints: the store is full")

	// ErrNotReady is returned by a round if [Config].Ready returned an error, which it wraps. The
	// instance is withdrawn.
	ErrNotReady = errors.New("endpoints: not ready")

	// ErrBusy is returned by a method of a [Reconciler] while another one is running.
	ErrBusy = errors.New("endpoints: Run, ReconcileOnce or Withdraw of this reconciler is already running")
)

// kind is a kind of object that an instance reads or writes.
type kind struct {
	name     string
	resource schema.GroupResource
}

var (
	services       = kind{"Service", corev1.Resource("services")}
	endpointSlices = kind{"EndpointSlice", discoveryv1.Resource("endpointslices")}
	endpointsKind  = kind{"Endpoints", corev1.Resource("endpoints")}
	configMaps     = kind{"ConfigMap", corev1.Resource("configmaps")}
	leaseKind      = kind{"Lease", coordinationv1.Resource("leases")}
)

// failed returns err with the request, of which at is the object, or of a list the Service. If ctx has ended, it adds
// why, which err lacks over HTTP/2.
func (k kind) failed(ctx context.Context, verb string, at types.NamespacedName, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	e := &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: k.resource, Namespace: at.Namespace, Name: at.Name},
		Object: k.name + " " + at.String(), Err: err,
	}
	if verb == "list" {
		e.Name, e.Object = "", fmt.Sprintf("%ss of Service %s in namespace %s", k.name, at.Name, at.Namespace)
	}
	return fmt.Errorf("endpoints: %w", e)
}

// absent reports whether err is the API server's statement that no object has this name.
func (k kind) absent(err error, name string) bool { return kube.Absent(err, k.resource, name) }
