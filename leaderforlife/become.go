package leaderforlife

import (
	"context"
	"fmt"
	"strings"
)

// Become returns nil once this process' Pod is the leader by the named lock. The Pod then leads
// until it ends: there is nothing to renew, release or close. Become waits while another Pod leads
// or may lead. A container that is restarted in the leader's Pod is the leader again at once.
//
// lockName names a ConfigMap (or Lease, see [WithLease]) in the Pod's namespace: at most 63
// characters, lower-case letters, digits, '-' and '.'. One lock elects one leader, so two kinds of
// daemon need two locks.
//
// An error means that this Pod does not lead:
//   - the error of ctx, if it has ended
//   - [ErrNoNamespace], or others about missing options
//   - [ErrPodGone] or [ErrForeignLock]
//   - an error that matches IsForbidden of k8s.io/apimachinery/pkg/api/errors, if RBAC has refused a
//     required request for 15 s
//   - an error that matches IsUnauthorized, if the API server has not accepted the credentials of this
//     process for 15 s
//
// Other failed requests are retried after a pause. A candidate that gives up undoes its writes,
// which takes at most 7 s if the API server does not answer. If it has written nothing, Become
// returns at once.
//
// Become leaves no goroutine behind. On Linux it leaves a socket, which keeps a second process of
// the Pod from leading.
func Become(ctx context.Context, lockName string, options ...Option) error {
	_, err := elect(ctx, lockName, options)
	return named(lockName, err)
}

// named adds the package and the lock to an error.
func named(lockName string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "leaderforlife: ") {
		return err
	}
	return fmt.Errorf("leaderforlife: lock %s: %w", lockName, err)
}
