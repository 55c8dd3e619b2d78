package leaderforlife

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Hooks are functions to call when something happens; each may be nil. They are called synchronously, one at a time, from the
// goroutine of Become or TryBecome, and delay it.
type Hooks struct {
	// OnWaiting is told what a candidate waits for, when it begins to and whenever that changes.
	OnWaiting func([]Waiting)

	// OnLeading is told the UID of the lock, right before Become or TryBecome returns that this Pod is the leader.
	OnLeading func(lock types.UID)
}

// Waiting is one reason why a candidate does not lead.
type Waiting struct {
	// Pod and UID of whom it waits for: the leader, as a rule. Node is where it runs, empty if that is not known.
	Pod  string
	UID  types.UID
	Node string
	// Why it has to, in words for people.
	Why string
}

// Fence knows what became of machines that could not be asked, as a fencing controller does.
type Fence interface {
	// Ended reports whether it is proven that no process of a Pod runs any more, and none will: that its machine has been switched off
	// since the Pod was started, for example. The Pod is as it was last seen, and must not be changed. That a node is not Ready, or does
	// not answer, is no proof. An error counts as no, and so does an answer that does not come within
	// 10 s, when ctx ends. Until such a call has returned there is no other.
	Ended(ctx context.Context, pod *corev1.Pod) (bool, error)
}
