package leaderforlife

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/kube"
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
	switch {
	case kube.RoleMissing(e.Err):
		return fmt.Sprintf("not allowed to %s %s: grant the verb %q on resource %s of API group %q: %v", e.Verb, object, e.Verb, e.Resource, e.Group, e.Err)
	case apierrors.IsForbidden(e.Err) && !kube.Stated(e.Err):
		return fmt.Sprintf("%s %s: this 403 is not the API server's, but of something before it: %v", e.Verb, object, e.Err)
	case e.Verb != "create" && e.Name != "" && apierrors.IsNotFound(e.Err) && !e.absent():
		return fmt.Sprintf("%s %s: this 404 does not say that there is none "+
			"(a proxy answers so, or an API server that does not serve %s): %v", e.Verb, object, e.Resource, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Verb, object, e.Err)
}

// Unwrap returns the API error.
func (e *AccessError) Unwrap() error { return e.Err }

// absent reports whether the API server says that the object does not exist.
func (e *AccessError) absent() bool {
	return kube.Absent(e.Err, schema.GroupResource{Group: e.Group, Resource: e.Resource}, e.Name)
}

func absent(err error) bool {
	var access *AccessError
	return errors.As(err, &access) && access.absent()
}

// alreadyExists reports whether the API server says that what was to be created exists.
func alreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) && kube.Stated(err) }

// isLostRace reports whether a write has failed because what it was about is not any more what it
// was.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) && kube.Stated(err) || alreadyExists(err) || absent(err)
}
