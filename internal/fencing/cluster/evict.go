package cluster

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Undrained returns the names of the pods that Evict would evict, as namespace/name.
func (n *Node) Undrained(ctx context.Context) ([]string, error) {
	pods, err := n.pods(ctx, nil, func(pod *corev1.Pod) bool { return !isDaemon(pod) && !isOver(pod) })
	return names(pods), err
}

// Evict does a part of the eviction of the node's pods. It is for a node whose pods may run, so
// they end as in a drain, and disruption budgets apply. It does not wait. Call it again after
// Progress.After, with the returned Progress, until that is Done. This may never happen, because
// budgets may refuse forever, and on a lost node no pod ends. Options.Budget has no effect.
//
// Mirror pods, pods of DaemonSets and pods that have ended stay. Progress.Pods.Refused counts the
// pods that budgets have refused to evict, which is not an error.
func (n *Node) Evict(ctx context.Context, prove Proof, options Options, progress Progress) (Progress, error) {
	if prove == nil {
		return progress, errNoProof
	}
	if err := options.Storage.Validate(); err != nil {
		return progress, err
	}
	progress.After = again
	pods, err := n.pods(ctx, options.Storage, func(pod *corev1.Pod) bool { return !isDaemon(pod) && !isOver(pod) })
	if err != nil {
		return progress, err
	}
	var asked []corev1.Pod
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			asked = append(asked, pods[i])
		}
	}
	progress = report(progress, pods, len(asked))
	progress.Pods.Refused = 0
	progress.Done = len(pods) == 0
	var errs []error
	for i := range asked {
		evicted, err := n.evict(ctx, prove, &asked[i])
		switch {
		case apierrors.IsTooManyRequests(err):
			progress.Pods.Refused++
		case errors.Is(err, errLater):
			progress.Pods.Refused++
			return progress, errors.Join(errs...)
		case err != nil:
			errs = append(errs, err)
			if !isRefusal(err) {
				return progress, errors.Join(errs...)
			}
		case evicted:
			progress.Pods.Deleted++
			if options.OnPod != nil {
				options.OnPod(&asked[i])
			}
		}
	}
	return progress, errors.Join(errs...)
}

// evict reports whether the eviction was accepted. It is not if the pod has changed, which is no
// error, because the next call finds it.
func (n *Node) evict(ctx context.Context, prove Proof, pod *corev1.Pod) (bool, error) {
	// With the UID alone, the API server waits up to 10 s for a pod of the same name to become
	// the meant one.
	preconditions := &metav1.Preconditions{UID: &pod.UID}
	if pod.ResourceVersion != "" { // a fake clientset has none
		preconditions.ResourceVersion = &pod.ResourceVersion
	}
	err := act(ctx, prove, func(ctx context.Context) error {
		return n.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: preconditions},
		})
	})
	if kube.Absent(err, corev1.Resource("pods"), pod.Name) || apierrors.IsConflict(err) {
		return false, nil
	}
	return err == nil, n.wrapPod("evict", pod, err)
}
