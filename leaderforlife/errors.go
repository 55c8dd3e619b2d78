package leaderforlife

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

func absent(err error) bool {
	var failed *kube.RequestError
	return errors.As(err, &failed) && failed.Absent()
}

// alreadyExists reports whether the API server states that the object to create exists.
func alreadyExists(err error) bool { return apierrors.IsAlreadyExists(err) && kube.Stated(err) }

// isLostRace reports whether a write failed because its object has changed or is gone.
func isLostRace(err error) bool {
	return apierrors.IsConflict(err) && kube.Stated(err) || alreadyExists(err) || absent(err)
}
