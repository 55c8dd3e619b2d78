package fencing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// A machine is lost with everything on it. Its StatefulSets are stuck until the node is released;
// then all of it comes up on the other node, at once, and nothing is disturbed when the machine
// returns.
func TestLostNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.patchNode(lostNode, `{"metadata":{"annotations":{"volumes.kubernetes.io/`+
		`controller-managed-attach-detach":"true"}}}`)
	w.patchNode(goodNode, `{"spec":{"unschedulable":true}}`) // for now
	w.volume()
	history := w.watchPods()
	w.statefulSet("web", 1, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
	w.statefulSet("crew", crew)
	w.daemonSet("agent")
	w.daemonSet("proxy", corev1.Toleration{Operator: corev1.TolerationOpExists})
	stateful := []string{"web-0"}
	for i := range crew {
		stateful = append(stateful, fmt.Sprintf("crew-%d", i))
	}
	w.requireOn(lostNode, append([]string{"agent-", "proxy-"}, stateful...)...)
	web, agent, proxy := w.find("web-0"), w.first("agent-"), w.first("proxy-")
	attachment := w.requireAttached(lostNode)
	w.patchNode(lostNode, fmt.Sprintf(`{"status":{"volumesInUse":["kubernetes.io/csi/%s^%s"]}}`, driver, w.namespace),
		"status")

	w.patchNode(goodNode, `{"spec":{"unschedulable":null}}`)
	require.NoError(t, shared.Node(lostNode).Pause())
	require.Eventually(t, func() bool { return !w.ready(lostNode) }, patience, poll)
	// The StatefulSets' pods tolerate no unreachable node: they are to end, by a kubelet that is
	// not there.
	for _, name := range stateful {
		require.Eventually(t, func() bool { return w.find(name).DeletionTimestamp != nil }, patience, poll)
	}
	w.never("Kubernetes needs no fence", 2*time.Second,
		func() bool { now := w.find("web-0"); return now == nil || now.UID != web.UID })

	require.NoError(t, shared.Node(lostNode).Kill(), "the power is cut")
	fence := w.fence(w.getNode(lostNode))
	off := func(ctx context.Context) error {
		now, err := w.client.CoreV1().Nodes().Get(ctx, lostNode, metav1.GetOptions{})
		if err == nil && isReady(now) {
			err = fmt.Errorf("node %s is Ready", lostNode)
		}
		return err
	}
	require.NoError(t, again(func() error { return fence.MarkUnschedulable(t.Context(), off) }))
	begin := time.Now()
	var order []string
	options := cluster.Options{OnPod: func(pod *corev1.Pod) {
		if pod.Namespace == w.namespace {
			order = append(order, pod.Name)
		}
	}}
	released, err := release(t.Context(), fence, off, options, time.Minute)
	require.NoError(t, err)
	t.Logf("released within %v", time.Since(begin))
	assert.Equal(t, v1alpha1.TaintNone, released.taint)
	assert.Empty(t, released.attachments)
	w.requireOn(goodNode, stateful...)
	t.Logf("everything runs again %v after the release began", time.Since(begin))
	require.Len(t, order, 1+crew+2)
	assert.ElementsMatch(t, []string{agent.Name, proxy.Name}, order[1+crew:], "those of DaemonSets are last")
	_, err = w.client.StorageV1().VolumeAttachments().Get(t.Context(), attachment, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "the volume is in use, says the node, and yet detached: %v", err)

	// What tolerates the fence is there again, what does not waits for its end.
	require.Eventually(t, func() bool { now := w.first("proxy-"); return now != nil && now.UID != proxy.UID }, patience,
		poll)
	assert.Nil(t, w.first("agent-"))
	require.NoError(t, shared.Node(lostNode).Restart())
	require.Eventually(t, func() bool { return w.ready(lostNode) }, patience, poll)
	require.NoError(t, fence.MarkSchedulable(t.Context()))
	w.requireOn(lostNode, "agent-", "proxy-")
	assert.ElementsMatch(t, stateful, order[:1+crew])
	for _, name := range stateful {
		require.Eventually(t, func() bool { return len(history.uids(name)) >= 2 }, patience, poll,
			"the watch has not seen the successor of %s", name)
		assert.Len(t, history.uids(name), 2, "the successor of %s was left alone", name)
	}
	_, err = fence.DeletePods(t.Context(), off, options, cluster.Progress{})
	assert.ErrorIs(t, err, cluster.ErrNotProved, "a node that works is not released")
	_, err = fence.TaintOutOfService(t.Context(), off)
	assert.ErrorIs(t, err, cluster.ErrNotProved)
	w.requireOn(lostNode, "agent-", "proxy-")
}

const (
	driver = "driver.bellwether.invalid"
	crew   = 40 // so many pods that the control plane does not get to all of them at once
)

// volume makes a claim with a volume that has to be attached.
func (w *world) volume() {
	w.t.Helper()
	gigabyte := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	_, err := w.client.CoreV1().PersistentVolumes().Create(w.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: gigabyte, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef: &corev1.ObjectReference{Namespace: w.namespace, Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       driver,
				VolumeHandle: w.namespace,
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	_, err = w.client.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: w.namespace, StorageClassName: ptr.To(""),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: gigabyte},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// requireAttached waits until the control plane wants the volume to be attached to the node, and
// attaches it as a driver does.
func (w *world) requireAttached(node string) string {
	w.t.Helper()
	var found *storagev1.VolumeAttachment
	require.Eventually(w.t, func() bool {
		attachments, err := w.client.StorageV1().VolumeAttachments().List(w.t.Context(), metav1.ListOptions{})
		require.NoError(w.t, err)
		for _, attachment := range attachments.Items {
			if attachment.Spec.Attacher == driver && attachment.Spec.NodeName == node &&
				*attachment.Spec.Source.PersistentVolumeName == w.namespace {
				found = &attachment
			}
		}
		return found != nil
	}, patience, poll, "the volume is attached nowhere")
	found.Status.Attached = true
	_, err := w.client.StorageV1().VolumeAttachments().UpdateStatus(w.t.Context(), found, metav1.UpdateOptions{})
	require.NoError(w.t, err)
	require.Eventually(w.t, func() bool { return len(w.getNode(node).Status.VolumesAttached) > 0 }, patience, poll)
	return found.Name
}

func (w *world) statefulSet(name string, replicas int32, volumes ...corev1.Volume) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	template.Spec.Volumes = volumes
	template.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{lostNode, goodNode}},
			}}},
		}},
	}
	template.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: ptr.To(int64(0)),
	}}
	_, err := w.client.AppsV1().StatefulSets(w.namespace).Create(w.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
			PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) daemonSet(name string, tolerations ...corev1.Toleration) {
	w.t.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: lostNode}
	template.Spec.Tolerations = tolerations
	_, err := w.client.AppsV1().DaemonSets(w.namespace).Create(w.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) ready(node string) bool { return isReady(w.getNode(node)) }

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// first returns the pod of this name that is not being deleted, nil if there is none. A name that
// ends in a dash is a prefix.
func (w *world) first(name string) *corev1.Pod {
	w.t.Helper()
	pods, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	for _, pod := range pods.Items {
		named := pod.Name == name || strings.HasSuffix(name, "-") && strings.HasPrefix(pod.Name, name)
		if named && pod.DeletionTimestamp == nil {
			return &pod
		}
	}
	return nil
}

// requireOn waits until a pod of each name runs on the node.
func (w *world) requireOn(node string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.Eventually(w.t, func() bool {
			pod := w.first(name)
			return pod != nil && pod.Spec.NodeName == node && pod.Status.Phase == corev1.PodRunning
		}, patience, poll, "no pod %s runs on node %s", name, node)
	}
}

// history is every state of every pod of a namespace.
type history struct {
	mu   sync.Mutex
	pods []*corev1.Pod // guarded by mu
}

func (w *world) watchPods() *history {
	w.t.Helper()
	pods := w.client.CoreV1().Pods(w.namespace)
	list, err := pods.List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	h := &history{}
	e2e.Follow(w.t, list.ResourceVersion, pods.Watch, func(e watch.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pods = append(h.pods, e.Object.(*corev1.Pod))
	})
	return h
}

func (h *history) saw(uid types.UID, state func(*corev1.Pod) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.pods, func(pod *corev1.Pod) bool { return pod.UID == uid && state(pod) })
}

// uids of the pods that had this name, one after another.
func (h *history) uids(name string) []types.UID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var uids []types.UID
	for _, pod := range h.pods {
		if pod.Name == name && !slices.Contains(uids, pod.UID) {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}
