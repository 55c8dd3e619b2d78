//go:build linux

package realnode_test

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

const driver = "csi.bellwether.invalid"

// volume is one that a StatefulSet's Pod has on the fleet's node. No driver runs on the nodes: the
// kubelet has the volume attached, and waits for a driver to mount it.
type volume struct {
	f    *fleet
	name string

	mu       sync.Mutex
	attached []string  // nodes, in their order
	freed    []float64 // when each was seen to be attached no more
}

// deployVolume returns when the volume is attached to the node.
func (f *fleet) deployVolume() *volume {
	f.t.Helper()
	namespace, err := cluster.Namespace(f.t.Context(), "volume")
	require.NoError(f.t, err)
	v := &volume{f: f, name: namespace}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	_, err = cluster.Client.CoreV1().PersistentVolumes().Create(f.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "data-db-0"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.name},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(f.t, err)
	f.onlyHere(true) // its first Pod
	labels := map[string]string{"app": "db"}
	_, err = cluster.Client.AppsV1().StatefulSets(namespace).Create(f.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "db", Image: "example-leader:" + image.Version, ImagePullPolicy: corev1.PullNever,
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					VolumeName: v.name, StorageClassName: ptr.To(""),
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: size},
				},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(f.t.Context())
	var attaching sync.WaitGroup
	attaching.Go(func() { v.attach(ctx) })
	f.t.Cleanup(func() {
		cancel()
		attaching.Wait()
	})
	v.awaitOn(f.node.Name)
	f.onlyHere(false)
	return v
}

// onlyHere cordons all other nodes, or uncordons them.
func (f *fleet) onlyHere(only bool) {
	f.t.Helper()
	for _, node := range nodes {
		if node == f.node.Name {
			continue
		}
		patch := []byte(`{"spec": {"unschedulable": null}}`)
		if only {
			patch = []byte(`{"spec": {"unschedulable": true}}`)
		}
		_, err := cluster.Client.CoreV1().Nodes().Patch(f.t.Context(), node, types.MergePatchType, patch,
			metav1.PatchOptions{})
		require.NoError(f.t, err)
	}
}

// attach does what a driver's controller does: it attaches what is to be attached.
func (v *volume) attach(ctx context.Context) {
	attachments := cluster.Client.StorageV1().VolumeAttachments()
	for ctx.Err() == nil {
		all, err := attachments.List(ctx, metav1.ListOptions{})
		if err == nil {
			v.saw(all.Items)
			for _, a := range all.Items {
				if v.its(a) && !a.Status.Attached {
					a.Status.Attached = true
					_, _ = attachments.UpdateStatus(ctx, &a, metav1.UpdateOptions{})
				}
			}
		}
		<-time.After(poll)
	}
}

func (v *volume) its(a storagev1.VolumeAttachment) bool {
	return a.Spec.Attacher == driver && ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == v.name
}

// saw records to which node the volume is attached.
func (v *volume) saw(all []storagev1.VolumeAttachment) {
	v.mu.Lock()
	defer v.mu.Unlock()
	here := map[string]bool{}
	for _, a := range all {
		if !v.its(a) {
			continue
		}
		here[a.Spec.NodeName] = true
		if n := len(v.attached); n == 0 || v.attached[n-1] != a.Spec.NodeName {
			v.attached = append(v.attached, a.Spec.NodeName)
		}
	}
	if n := len(v.freed); n < len(v.attached) && !here[v.attached[n]] {
		v.freed = append(v.freed, seconds())
	}
}

// awaitOn waits until the volume is attached to a node.
func (v *volume) awaitOn(node string) {
	v.f.t.Helper()
	require.Eventually(v.f.t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		n := len(v.attached)
		return n > 0 && v.attached[n-1] == node
	}, patience, poll)
}

// awaitMoved waits until the volume is attached to another node than the first, and returns when it
// was free.
func (v *volume) awaitMoved() (freed float64) {
	v.f.t.Helper()
	require.Eventually(v.f.t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.attached) > 1 && len(v.freed) > 0
	}, patience, poll)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.freed[0]
}
