package leaderforlife

import (
	"context"
	"fmt"
	"strings"
)

// Become returns nil when this process' Pod is the leader by the lock of that name. It then is until it ends; there is nothing to renew,
// to release or to close. It waits as long as another Pod leads, or may. A container that was restarted in the leader's Pod is the
// leader again at once.
//
// lockName is the name of a ConfigMap (or Lease, see [WithLease]) in the Pod's namespace: at most 63 characters, lower-case letters,
// digits, '-' and '.'. One lock elects one leader: two kinds of daemon need two names.
//
// An error means that this Pod does not lead: that of ctx when it has ended; [ErrNoNamespace] and others for what the options lack;
// [ErrPodGone]; [ErrForeignLock]; an [AccessError] when RBAC has refused an indispensable request for 15 s. Any other failure of a request
// is tried again after a pause. A candidate that gives up removes what it may have written, which takes 5 s at most if the API
// server does not answer; without a write under way it returns at once.
//
// No goroutine is left behind. On Linux, a socket is: it keeps a second process of the Pod from leading too.
func Become(ctx context.Context, lockName string, options ...Option) error {
	_, _, err := elect(ctx, lockName, options, false)
	return named(lockName, err)
}

// TryBecome is Become without waiting: it returns false while another Pod leads, or may. It leaves nothing behind by which others would have to
// wait for this Pod. Errors of requests are returned, not tried again.
func TryBecome(ctx context.Context, lockName string, options ...Option) (bool, error) {
	_, led, err := elect(ctx, lockName, options, true)
	return led, named(lockName, err)
}

// named says which lock an error is about, and which package it is of.
func named(lockName string, err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "leaderforlife: ") {
		return err
	}
	return fmt.Errorf("leaderforlife: lock %s: %w", lockName, err)
}
