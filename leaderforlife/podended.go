package leaderforlife

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LeaderLabel is the label on the Pod of the leader by a lock. Its value is the UID of the lock.
func LeaderLabel(lockName string) string { return "leader.bellwether.dev/" + lockName }

// contender is another Pod that may be the leader: the owner of the lock, one with the label, or
// one that owned an earlier lock.
type contender struct {
	podID
	seen   *corev1.Pod // as last seen; nil: never
	ending bool        // it was seen while it had time to end
	gone   bool        // there is no such Pod any more
	kept   bool        // it owns a lock that the garbage collector does not remove: deletion is no proof
	fenced bool        // says the Fence
}

// node is where it was last seen; empty if that is not known.
func (s contender) node() string {
	if s.seen == nil {
		return ""
	}
	return s.seen.Spec.NodeName
}

// ended reports whether the kubelet has said that nothing of the Pod runs any more. A phase that is
// terminal does not change, but it may be there before the containers have ended, or written by the
// control plane in the place of a kubelet that does not answer.
func ended(pod *corev1.Pod) bool {
	return pod != nil && terminal(pod) && runningContainer(pod) == ""
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// runningContainer names one that was last reported to run; empty: none.
func runningContainer(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if c.State.Running != nil {
			return c.Name
		}
	}
	return ""
}

// nodeState is what proves, or not, that the Pods of a node have ended.
type nodeState struct {
	known, gone         bool
	ready, outOfService bool
}

func stateOf(node *corev1.Node) nodeState {
	s := nodeState{known: true}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			s.ready = c.Status == corev1.ConditionTrue
		}
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			s.outOfService = true
		}
	}
	return s
}

// down reports whether it is proven that nothing runs on the node. The taint alone is no proof: it
// may have been forgotten there, and the node be back.
func (s nodeState) down() bool { return s.known && (s.gone || s.outOfService && !s.ready) }

// hasEnded decides whether a contender is proven to have ended; if not, why says what is in the
// way.
func hasEnded(s contender, node nodeState) (over bool, why string) {
	switch {
	case ended(s.seen), s.gone && !s.kept, s.seen != nil && node.down(), s.fenced:
		return true, ""
	case s.gone:
		return false, "its Pod was deleted before it was seen to end; if you know that its process has ended, delete the lock"
	case s.seen == nil:
		return false, "nothing is known of it yet"
	}
	switch {
	case terminal(s.seen):
		why = fmt.Sprintf("its Pod is %s, but container %s was last reported to run", s.seen.Status.Phase, runningContainer(s.seen))
	case s.seen.DeletionTimestamp != nil:
		why = fmt.Sprintf("its Pod is to end by %s, but has not been reported to have", s.seen.DeletionTimestamp.UTC().Format(time.RFC3339))
	default:
		why = "its Pod runs"
	}
	if node.known && !node.ready {
		why += "; its node is not Ready, which proves nothing: remove the node, or set the taint " + corev1.TaintNodeOutOfService + " once its machine is off"
	}
	return false, why
}
