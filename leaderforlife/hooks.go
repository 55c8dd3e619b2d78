package leaderforlife

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Hooks are functions that Become calls when something happens. Each may be nil. Calls
// are synchronous, one at a time, and delay Become.
type Hooks struct {
	// OnWaiting is called with the reasons for waiting, when waiting starts and whenever they
	// change.
	OnWaiting func([]Waiting)

	// OnLeading is called with the UID of the lock, right before Become reports that
	// this Pod leads.
	OnLeading func(lock types.UID)

	// OnFailing is called while the API server does not answer a candidate as it should: after each
	// failed attempt with the time since the first one and the error, and with 0 and nil once an
	// attempt has succeeded or Become returns.
	OnFailing func(lasted time.Duration, err error)
}

// Waiting is one reason why a candidate does not lead.
type Waiting struct {
	// Pod and UID identify the Pod to wait for, usually the leader. Node is where it runs, empty if
	// unknown.
	Pod  string
	UID  types.UID
	Node string
	// Why explains the reason to a person.
	Why string
}

// Fence reports what became of machines that do not answer, as a fencing controller can.
type Fence interface {
	// Ended reports whether it is proven that no process of a Pod runs or will run, for example
	// because its machine was switched off after the Pod had started. A node that is not Ready or
	// does not answer proves nothing.
	//
	// pod is the Pod as last seen; do not change it. An error counts as no, and so does an answer
	// that takes longer than 10 s, when ctx ends. Calls do not overlap.
	Ended(ctx context.Context, pod *corev1.Pod) (bool, error)
}
