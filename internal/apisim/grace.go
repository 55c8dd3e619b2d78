package apisim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// end deletes a Pod, or gives it time to end, which its kubelet later declares over by a deletion
// without a grace period. The answer is its last state.
func (s *Server) end(t target, old *Object, options metav1.DeleteOptions) *Object {
	o := old.copy()
	begun, left := time.Now(), grace(old, options.GracePeriodSeconds)
	if ends := old.GetDeletionTimestamp(); ends != nil {
		before, asked := seconds(old.GetDeletionGracePeriodSeconds()), options.GracePeriodSeconds
		if asked == nil || atLeast(*asked) >= before {
			return old // even if its propagation policy is another
		}
		begun, left = ends.Add(-time.Duration(before)*time.Second), atLeast(*asked)
	}
	o.SetDeletionTimestamp(&metav1.Time{Time: begun.Add(time.Duration(left) * time.Second).Truncate(time.Second)})
	o.SetDeletionGracePeriodSeconds(&left)
	if p := options.PropagationPolicy; p != nil {
		setPolicy(o, *p)
	}
	stored := s.store(t, o)
	if left > 0 || len(o.GetFinalizers()) > 0 {
		return stored
	}
	return s.store(t, nil)
}

// grace returns how many seconds a deleted Pod gets if the request asks for asked.
func grace(pod *Object, asked *int64) int64 {
	content := pod.Content()
	node, _, _ := unstructured.NestedString(content, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(content, "status", "phase")
	if node == "" || phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded) {
		return 0
	}
	if asked == nil {
		own, _, _ := unstructured.NestedInt64(content, "spec", "terminationGracePeriodSeconds")
		asked = &own
	}
	return atLeast(*asked)
}

// atLeast returns the period, or the shortest one if it is negative.
func atLeast(period int64) int64 {
	if period < 0 {
		return 1
	}
	return period
}

func seconds(period *int64) int64 {
	if period == nil {
		return 0
	}
	return *period
}
