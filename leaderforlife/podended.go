package leaderforlife

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LeaderLabel returns the key of the label on the Pod of the leader by a lock. Its value is the UID
// of the lock.
func LeaderLabel(lockName string) string { return "leader.bellwether.dev/" + lockName }

// contender is another Pod that may lead: it owns the lock, has the label, or owned an earlier
// lock.
type contender struct {
	podID
	seen   *corev1.Pod // last version seen; nil if never seen
	ending bool        // it was seen with grace time left
	gone   bool        // the Pod does not exist
	kept   bool        // it owns a lock of [WithObservedPodEnd]: deletion is no proof
	fenced bool        // the Fence reports its end
}

// node returns the node of the Pod, or "" if it is unknown.
func (s contender) node() string {
	if s.seen == nil {
		return ""
	}
	return s.seen.Spec.NodeName
}

// ended reports whether the kubelet has reported that no container of the Pod runs. A terminal
// phase alone is no proof, because it may precede the end of containers, and the control plane
// writes it for a kubelet that does not answer.
func ended(pod *corev1.Pod) bool {
	return pod != nil && terminal(pod) && runningContainer(pod) == ""
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// runningContainer returns a container that was last reported to run, or "".
func runningContainer(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses) {
		if c.State.Running != nil {
			return c.Name
		}
	}
	return ""
}

// nodeState is what is known of a node.
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

// down reports whether it is proven that nothing runs on the node. The taint alone is no proof,
// because it may have been left behind after the node came back.
func (s nodeState) down() bool { return s.known && (s.gone || s.outOfService && !s.ready) }

// hasEnded decides whether a contender is proven to have ended. If not, why names what is missing.
func hasEnded(s contender, node nodeState) (over bool, why string) {
	switch {
	case ended(s.seen), s.gone && !s.kept, s.seen != nil && node.down(), s.fenced:
		return true, ""
	case s.gone:
		return false, "its Pod was deleted before it was seen to end; if you know that its process has ended, delete " +
			"the lock"
	case s.seen == nil:
		return false, "nothing is known of it yet"
	}
	switch {
	case terminal(s.seen):
		why = fmt.Sprintf("its Pod is %s, but container %s was last reported to run", s.seen.Status.Phase,
			runningContainer(s.seen))
	case s.seen.DeletionTimestamp != nil:
		why = fmt.Sprintf("its Pod is terminating, with grace until %s",
			s.seen.DeletionTimestamp.UTC().Format(time.RFC3339))
	default:
		why = "its Pod runs"
	}
	if node.known && !node.ready {
		why += "; its node is not Ready, which proves nothing: remove the node, or set the taint " +
			corev1.TaintNodeOutOfService + " once its machine is off"
	}
	return false, why
}
