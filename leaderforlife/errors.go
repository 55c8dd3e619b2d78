package leaderforlife

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrNoNamespace is returned if the namespace of the lock is unknown, because the process does
	// not run in a Pod, as on a developer's machine, and [WithNamespace] is not set.
	ErrNoNamespace = errors.New("leaderforlife: no namespace: this process does not seem to run in a Pod, " +
		"which is what leads and what the lock belongs to. Run it in one, with the service account token that the " +
		"kubelet mounts; " +
		"or say for which Pod it acts by WithNamespace, WithPodName, and WithConfig or WithClient; or do not call " +
		"this function outside of a cluster")

	// ErrPodGone is returned if the Pod of this process does not exist, or if another Pod has its
	// name. A process that has outlived its Pod must not lead, and the garbage collector would
	// remove its lock.
	ErrPodGone = errors.New("leaderforlife: the Pod of this process is gone")

	// ErrForeignLock is returned if the object with the lock's name is not a lock of this package,
	// for example because it has no owner. The object does not show who leads, and is never written
	// or deleted.
	ErrForeignLock = errors.New("leaderforlife: not a lock for life")
)

// accessError is a failed request.
type accessError struct {
	Verb     string // as in RBAC
	Group    string // API group; empty for the core
	Resource string
	// Namespace and Name of the object. Name is empty for a list, Namespace for nodes.
	Namespace, Name string
	Err             error
}

// Error names the verb, the object, and the right to grant if that is missing.
func (e *accessError) Error() string {
	object := e.Resource
	if e.Name != "" {
		object += " " + e.Name
	}
	if e.Namespace != "" {
		object += " in namespace " + e.Namespace
	}
	switch {
	case apierrors.IsForbidden(e.Err) && !kube.Stated(e.Err):
		return fmt.Sprintf("%s %s: this 403 is not from the API server: %v", e.Verb, object, e.Err)
	case e.Verb != "create" && e.Name != "" && apierrors.IsNotFound(e.Err) && !e.absent():
		return fmt.Sprintf("%s %s: this 404 does not prove that the object is gone "+
			"(it is a proxy's, or of an API server that does not serve %s): %v", e.Verb, object, e.Resource, e.Err)
	}
	return kube.RequestError(e.Verb, object, e.resource(), e.Err).Error()
}

// Unwrap returns the API error.
func (e *accessError) Unwrap() error { return e.Err }

// absent reports whether the API server states that the object does not exist.
func (e *accessError) absent() bool {
	return kube.Absent(e.Err, e.resource(), e.Name)
}

func (e *accessError) resource() schema.GroupResource {
	return schema.GroupResource{Group: e.Group, Resource: e.Resource}
}

func absent(err error) bool {
	var access *accessError
	return errors.As(err, &access) && access.absent()
}

// alreadyExists reports whether the API server states that the object to create exists.
func alreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) && kube.Stated(err) }

// isLostRace reports whether a write failed because its object has changed or is gone.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) && kube.Stated(err) || alreadyExists(err) || absent(err)
}
