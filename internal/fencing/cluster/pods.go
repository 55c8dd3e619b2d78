package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// ReasonFenced is the reason of the condition DisruptionTarget of released pods.
const ReasonFenced = "DeletionByNodeFencing"

// rank is the position of a pod in the order of a release.
type rank int

const (
	rankStateful rank = iota // no other pod replaces it
	rankVolumes              // its successor waits for volumes
	rankOther
	rankDaemon // it belongs to the node
)

func rankOf(pod *corev1.Pod) rank {
	switch owner := metav1.GetControllerOf(pod); {
	case owner != nil && owner.Kind == "StatefulSet":
		return rankStateful
	case isDaemon(pod):
		return rankDaemon
	case slices.ContainsFunc(pod.Spec.Volumes,
		func(v corev1.Volume) bool { return claim(pod, &v) != "" || v.CSI != nil }):
		return rankVolumes
	}
	return rankOther
}

// order sorts pods for a release.
func order(pods []corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rankOf(&a), rankOf(&b)), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
}

func isDaemon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// isMirror reports whether the pod only mirrors a static pod of the kubelet.
func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// isReleased reports whether nothing is left to do for the pod, because only finalizers keep it.
func isReleased(pod *corev1.Pod) bool {
	forced := pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil &&
		*pod.DeletionGracePeriodSeconds == 0
	return forced && isOver(pod)
}

// returns reports whether a deleted pod would come back to this node at once, because no kubelet
// has ever started it and it tolerates our taint. Such a pod holds nothing, and deleting it would
// not end.
func returns(pod *corev1.Pod) bool {
	if begun := pod.Status.StartTime != nil || pod.Status.Phase != corev1.PodPending && pod.Status.Phase != ""; begun {
		return false
	}
	fence := corev1.Taint{Key: v1alpha1.TaintFenced, Effect: corev1.TaintEffectNoSchedule}
	return isDaemon(pod) || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Operator == corev1.TolerationOpExists && (t.Key == "" || t.Key == fence.Key) &&
			(t.Effect == "" || t.Effect == fence.Effect)
	})
}

// pods lists the chosen pods of the node consistently, in the order of a release.
func (n *Node) pods(ctx context.Context, storage *api.Storage, chosen func(*corev1.Pod) bool) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoReply)
		defer cancel()
		page, err := n.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		return page, explain(ctx, kube.Versioned(page, err))
	})
	// A list without a resourceVersion is consistent.
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.config.Name).String()}
	err := list.EachListItem(ctx, options, func(object runtime.Object) error {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("not a pod: %T", object)
		}
		// Fake clientsets do not select.
		if pod.Spec.NodeName == n.config.Name && !isMirror(pod) && chosen(pod) {
			pods = append(pods, *pod)
		}
		return nil
	})
	if err == nil && storage != nil {
		pods, err = n.onStorage(ctx, storage, pods)
	}
	if err != nil {
		return nil, n.wrap("list its pods", err)
	}
	order(pods)
	return pods, nil
}

// onStorage returns the pods that use only this storage.
func (n *Node) onStorage(ctx context.Context, storage *api.Storage, pods []corev1.Pod) ([]corev1.Pod, error) {
	v := &volumes{node: n, storage: storage}
	var on []corev1.Pod
	for i := range pods {
		only, err := v.only(ctx, &pods[i])
		if err != nil {
			return nil, fmt.Errorf("find volumes of pod %s/%s: %w", pods[i].Namespace, pods[i].Name, err)
		}
		if only {
			on = append(on, pods[i])
		}
	}
	return on, nil
}

func (n *Node) wrapPod(what string, pod *corev1.Pod, err error) error {
	return n.wrap(fmt.Sprintf("%s pod %s/%s", what, pod.Namespace, pod.Name), err)
}

// errPodGone means that the pod is gone. Another pod of its name may exist on another node.
var errPodGone = errors.New("the pod is gone")

// release removes a pod whose machine is off. It reports whether this call has ended it, because
// the controllers of pods also delete failed pods. It records its progress in the pod.
func (n *Node) release(ctx context.Context, prove Proof, pod *corev1.Pod) (ended bool, err error) {
	if ended, err = n.fail(ctx, prove, pod); err == nil {
		err = act(ctx, prove, func(ctx context.Context) error {
			// No version, because changes by others do not make the pod run.
			return n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
				GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID},
			})
		})
		err = n.gone(ctx, pod, err)
		ended = ended || err == nil
	}
	if errors.Is(err, errPodGone) {
		err = nil
	}
	return ended && err == nil, n.wrapPod("release", pod, err)
}

const failTries = 5

// fail sets the pod's phase to Failed with the condition DisruptionTarget, as the control plane
// does when it deletes a pod without a kubelet. By the condition, Jobs decide whether the failure
// counts. A pod that has ended keeps its phase, and fail returns false.
func (n *Node) fail(ctx context.Context, prove Proof, pod *corev1.Pod) (failed bool, err error) {
	for range failTries {
		if isOver(pod) {
			return false, nil
		}
		patch, marshalErr := json.Marshal(n.failed(pod))
		if marshalErr != nil {
			return false, marshalErr
		}
		err = act(ctx, prove, func(ctx context.Context) error {
			_, err := n.client.CoreV1().Pods(pod.Namespace).
				Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			return err
		})
		if !apierrors.IsConflict(err) {
			break
		}
		// The pod has changed and may have ended.
		fresh, getErr := n.pod(ctx, pod)
		if getErr != nil {
			return false, getErr
		}
		*pod = *fresh
	}
	if err = n.gone(ctx, pod, err); err != nil {
		return false, err
	}
	pod.Status.Phase = corev1.PodFailed
	return true, nil
}

// failed returns the patch that makes this version of the pod fail.
func (n *Node) failed(pod *corev1.Pod) any {
	status := map[string]any{"phase": corev1.PodFailed}
	targeted := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
	if !targeted {
		status["conditions"] = []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason:  ReasonFenced,
			Message: fmt.Sprintf("Node %s was fenced (incident %d)", n.config.Name, n.config.Incident),
		}}
	}
	identity := map[string]any{"uid": pod.UID}
	if pod.ResourceVersion != "" { // a fake clientset has none
		identity["resourceVersion"] = pod.ResourceVersion
	}
	return map[string]any{"metadata": identity, "status": status}
}

// gone turns an answer that means that the pod is gone into errPodGone.
func (n *Node) gone(ctx context.Context, pod *corev1.Pod, err error) error {
	switch {
	case kube.Absent(err, corev1.Resource("pods"), pod.Name):
		return errPodGone
	case apierrors.IsConflict(err):
		// Probably another UID.
		if _, getErr := n.pod(ctx, pod); getErr != nil {
			return getErr
		}
	}
	return err
}

// pod reads the pod again.
func (n *Node) pod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	var fresh *corev1.Pod
	err := ask(ctx, func(ctx context.Context) (err error) {
		fresh, err = n.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return kube.Named(fresh, pod.Name, err)
	})
	if kube.Absent(err, corev1.Resource("pods"), pod.Name) || err == nil && fresh.UID != pod.UID {
		return nil, errPodGone
	}
	return fresh, err
}
