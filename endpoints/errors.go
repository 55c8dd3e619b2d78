package endpoints

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// requestError returns err with what failed. If ctx has ended, it adds why, which err lacks over HTTP/2.
func requestError(ctx context.Context, verb string, object any, resource schema.GroupResource, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("endpoints: %w", kube.RequestError(verb, object, resource, err))
}
