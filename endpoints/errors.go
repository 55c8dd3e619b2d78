package endpoints

import (
	"errors"
	"fmt"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrSelector is returned for a Service with a selector: Kubernetes publishes the Pods that it selects. Nothing is written, but instances
	// that were registered before it had one are withdrawn when they end.
	ErrSelector = errors.New("the Service has a selector, so Kubernetes publishes its endpoints")

	// ErrNoService is that of a round in which the Service does not exist. The instance registers all the same, and is published when it does.
	ErrNoService = errors.New("the Service does not exist")

	// ErrForeign is that of an object which has the name of one of ours, but is not marked as ours. It is left alone.
	ErrForeign = errors.New("there is an object of that name that somebody else manages")

	// ErrFull is that of a store that has no room for this instance's entry. Entries that are in it can still be refreshed.
	ErrFull = errors.New("the store is full")

	// ErrNotReady is that of a round in which [Config].Ready said that the instance is not: then it is withdrawn. It wraps what Ready said.
	ErrNotReady = errors.New("not ready")

	// ErrBusy is returned by a method of a [Reconciler] while another one is running.
	ErrBusy = errors.New("endpoints: Run, ReconcileOnce or Withdraw of this reconciler is already running")
)

// accessError says which request on what has failed, and what to do if it is not allowed.
func accessError(verb string, object any, resource, group string, err error) error {
	if kube.RoleMissing(err) {
		return fmt.Errorf("endpoints: not allowed to %s %v: grant the verb %q on resource %s of API group %q: %w", verb, object, verb, resource, group, err)
	}
	return fmt.Errorf("endpoints: %s %v: %w", verb, object, err)
}
