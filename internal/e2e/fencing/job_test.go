package fencing_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// A Job that fails with its first Pod, unless that is disrupted, does not fail with the machine.
func TestJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	history := w.watchPods()
	jobs := w.client.BatchV1().Jobs(w.namespace)
	template := corev1.PodTemplateSpec{Spec: spec}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.SchedulerName = "the-test"
	_, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To(int32(0)), Template: template,
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{
					Type:   corev1.DisruptionTarget,
					Status: corev1.ConditionTrue,
				}},
			}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var pod *corev1.Pod
	require.Eventually(t, func() bool {
		pod = w.first("job-")
		return pod != nil
	}, patience, poll)
	require.NoError(t, w.client.CoreV1().Pods(w.namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name},
	}, metav1.CreateOptions{}))
	bound := w.find(pod.Name)
	bound.Status.Phase, bound.Status.StartTime = corev1.PodRunning, ptr.To(metav1.Now())
	_, err = w.client.CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), bound, metav1.UpdateOptions{})
	require.NoError(t, err)

	w.release(w.fence(node), cluster.Options{})
	require.Eventually(t, func() bool { return w.find(pod.Name) == nil }, patience, poll)
	require.Eventually(t, func() bool { // a watch may be late
		return history.saw(pod.UID, func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodFailed &&
				slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.DisruptionTarget && c.Reason == cluster.ReasonFenced
				})
		})
	}, patience, poll)
	require.Eventually(t, func() bool {
		next := w.first("job-")
		return next != nil && next.UID != pod.UID
	}, patience, poll, "the Job does not go on")
	job, err := jobs.Get(t.Context(), "job", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Zero(t, job.Status.Failed)
}
