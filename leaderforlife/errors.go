package leaderforlife

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrNoNamespace is returned when nothing says in which namespace the lock is: the process does not run in a Pod, as on a
	// developer's machine, and there is no [WithNamespace].
	ErrNoNamespace = errors.New("leaderforlife: no namespace: this process does not seem to run in a Pod, " +
		"which is what leads and what the lock belongs to. Run it in one, with the service account token that the kubelet mounts; " +
		"or say for which Pod it acts by WithNamespace, WithPodName, and WithConfig or WithClient; or do not call this function outside of a cluster")

	// ErrPodGone is what the error is when the Pod of this process does not exist, or another one has its name: a process that has
	// outlived its Pod must not lead, and the garbage collector would remove its lock.
	ErrPodGone = errors.New("the Pod of this process is gone")

	// ErrForeignLock is what the error is when the object of the lock's name is not a lock of this package, such as one without an
	// owner: nothing tells who leads, or if anybody does. It is never written or deleted.
	ErrForeignLock = errors.New("not a lock for life")
)

// AccessError says which request failed.
type AccessError struct {
	Verb     string // as RBAC names it
	Group    string // API group; empty for the core
	Resource string
	// Namespace and Name of the object. Name is empty for a list; Namespace for nodes.
	Namespace, Name string
	Err             error
}

// Error names the verb, the object, and what to grant where that is what is missing.
func (e *AccessError) Error() string {
	object := e.Resource
	if e.Name != "" {
		object += " " + e.Name
	}
	if e.Namespace != "" {
		object += " in namespace " + e.Namespace
	}
	if apierrors.IsForbidden(e.Err) {
		return fmt.Sprintf("not allowed to %s %s: grant the verb %q on resource %s of API group %q: %v", e.Verb, object, e.Verb, e.Resource, e.Group, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Verb, object, e.Err)
}

// Unwrap returns the API error.
func (e *AccessError) Unwrap() error { return e.Err }
