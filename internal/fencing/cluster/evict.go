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

// Undrained names the pods of the node that Evict would evict, as namespace/name: what is left to
// do for a drain.
func (n *Node) Undrained(ctx context.Context) ([]string, error) {
	pods, err := n.pods(ctx, nil, func(pod *corev1.Pod) bool { return !isDaemon(pod) && !isOver(pod) })
	return names(pods), err
}

// Evict takes a step of the eviction of the node's pods, for a node whose pods may run: they end as
// they would in a drain, and disruption budgets hold. It never waits. Call it again, with the
// Progress that it returned, after Progress.After, until that is Done, which it may never be:
// budgets may refuse for ever, and on a node that is lost no pod ends.
//
// Mirror pods, pods of DaemonSets and pods that have ended stay. Progress.Pods.Refused is how many
// pods are there still because budgets refused; that is no error.
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
	for i := range asked[:grant(options, len(asked))] {
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

// evict says whether the eviction was accepted. If the pod has changed meanwhile it is not, which
// is no error: the next look tells.
func (n *Node) evict(ctx context.Context, prove Proof, pod *corev1.Pod) (bool, error) {
	// With the UID alone the API server tries for 10 s whether a pod of the same name becomes the
	// one that is meant.
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
