package fencing_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// A pod with a finalizer of somebody else is released as far as we may, and holds nothing up for
// longer than it has to.
func TestFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	pod := w.pod("held", node.Name, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
	for range 2 { // the second time is after a crash
		progress := w.release(w.fence(node), cluster.Options{})
		assert.Equal(t, []string{w.namespace + "/held"}, progress.left)
	}
	now := w.find("held")
	assert.Equal(t, pod.UID, now.UID)
	assert.Equal(t, corev1.PodFailed, now.Status.Phase)
	assert.Equal(t, ptr.To(int64(0)), now.DeletionGracePeriodSeconds)
	w.unfinalize("held")
	require.Eventually(t, func() bool { return w.find("held") == nil }, patience, poll)
}

// Mirror pods stay, and the pods of other nodes.
func TestOthersPodsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	mirror := w.pod("mirror", node.Name, func(pod *corev1.Pod) {
		pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		// The taint would end it too.
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	elsewhere := w.pod("elsewhere", w.node().Name)
	w.pod("a", node.Name)
	progress := w.release(w.fence(node), cluster.Options{})
	assert.Equal(t, v1alpha1.Pods{Listed: 1, Deleted: 1}, progress.Pods)
	w.requireUntouched(mirror)
	w.requireUntouched(elsewhere)
	assert.Nil(t, w.find("a"))
}

// Only pods that use nothing but the fenced storage go, without the taint, which is about all.
func TestStorage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.volume()
	node := w.node()
	on := w.pod("on", node.Name, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	without := w.pod("without", node.Name)
	require.Eventually(t, func() bool {
		claim, err := w.client.CoreV1().PersistentVolumeClaims(w.namespace).Get(t.Context(), "data",
			metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound
	}, patience, poll)
	progress := w.release(w.fence(node), cluster.Options{Storage: &api.Storage{Drivers: []string{driver}}})
	assert.Equal(t, v1alpha1.Pods{Listed: 1, Deleted: 1}, progress.Pods)
	assert.Empty(t, w.outOfService(node.Name))
	assert.Nil(t, w.find(on.Name))
	w.requireUntouched(without)
}

// A budget refuses an eviction until it allows one.
func TestEviction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	w.readyPod("guarded", node.Name)
	budgets := w.client.PolicyV1().PodDisruptionBudgets(w.namespace)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: selected},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		budget, err := budgets.Get(t.Context(), "budget", metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration == budget.Generation && budget.Status.CurrentHealthy == 1
	}, patience, poll)
	fence := w.fence(node)
	var progress cluster.Progress
	for range 2 {
		require.NoError(t, again(func() error {
			progress, err = fence.Evict(t.Context(), proved, cluster.Options{}, progress)
			return err
		}))
		assert.Equal(t, v1alpha1.Pods{Listed: 1, Refused: 1}, progress.Pods)
		assert.False(t, progress.Done)
	}
	assert.Nil(t, w.find("guarded").DeletionTimestamp)

	// With another one that is available it may go.
	w.readyPod("other", w.node().Name)
	require.Eventually(t, func() bool {
		require.NoError(t, again(func() error {
			progress, err = fence.Evict(t.Context(), proved, cluster.Options{}, progress)
			return err
		}))
		return progress.Pods.Deleted == 1
	}, patience, poll)
	assert.Equal(t, v1alpha1.Pods{Listed: 1, Deleted: 1}, progress.Pods)
	assert.False(t, progress.Done, "it has not ended")
	assert.NotNil(t, w.find("guarded").DeletionTimestamp)
	w.forget("guarded")
	progress, err = fence.Evict(t.Context(), proved, cluster.Options{}, progress)
	require.NoError(t, err)
	assert.True(t, progress.Done)
}

var selected = map[string]string{"app": "web"}

// readyPod makes a pod that a kubelet says is ready.
func (w *world) readyPod(name, node string) {
	w.t.Helper()
	pod := w.pod(name, node, func(pod *corev1.Pod) { pod.Labels = selected })
	pod.Status = corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	_, err := w.client.CoreV1().Pods(w.namespace).UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// Attachments that stay are waited for, and never deleted unless that is asked for.
func TestAttachments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	name := w.namespace + "-attachment"
	w.attachment(name, node.Name)
	fence := w.fence(node)
	progress := w.release(fence, cluster.Options{})
	assert.Equal(t, []string{name}, progress.attachments)
	assert.Equal(t, v1alpha1.TaintNone, progress.taint)
	assert.Empty(t, w.outOfService(node.Name))
	left, err := fence.DetachVolumes(t.Context(), proved, &api.Storage{Drivers: []string{driver}})
	require.NoError(t, err)
	assert.Zero(t, left, "it is of another driver")
	require.NoError(t, again(func() error { left, err = fence.DetachVolumes(t.Context(), proved, nil); return err }))
	assert.Equal(t, 1, left)
	left, err = fence.DetachVolumes(t.Context(), proved, nil)
	require.NoError(t, err)
	assert.Zero(t, left)
}
