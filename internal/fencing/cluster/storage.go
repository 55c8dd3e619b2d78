package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// holds reports whether a persistent volume is selected.
func holds(s *api.Storage, volume *corev1.PersistentVolume) bool {
	csi := volume.Spec.CSI
	return csi != nil && slices.Contains(s.Drivers, csi.Driver) ||
		volume.Spec.StorageClassName != "" && slices.Contains(s.Classes, volume.Spec.StorageClassName) ||
		slices.ContainsFunc(
			s.Volumes,
			func(v labels.Selector) bool { return v != nil && !v.Empty() && v.Matches(labels.Set(volume.Labels)) },
		)
}

// volumes finds the pods that use selected volumes, for one look at the cluster.
type volumes struct {
	node    *Node
	storage *api.Storage
	known   map[string]bool // by the name of a persistent volume
}

// only reports whether the pod has selected volumes, and no other volumes that other nodes could
// also use, because a pod that still writes elsewhere must not be started twice. Unknown volumes
// are not selected.
func (v *volumes) only(ctx context.Context, pod *corev1.Pod) (bool, error) {
	some := false
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i]
		if private(source) {
			continue
		}
		held, err := v.held(ctx, pod, source)
		if !held || err != nil {
			return false, err
		}
		some = true
	}
	return some, nil
}

// private reports whether a volume exists on the machine only, or comes from the API server.
func private(v *corev1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		v.HostPath != nil ||
		v.Image != nil
}

func (v *volumes) held(ctx context.Context, pod *corev1.Pod, source *corev1.Volume) (bool, error) {
	if source.CSI != nil {
		return slices.Contains(v.storage.Drivers, source.CSI.Driver), nil
	}
	claimName := claim(pod, source)
	if claimName == "" {
		return false, nil
	}
	var pvc *corev1.PersistentVolumeClaim
	err := ask(ctx, func(ctx context.Context) (err error) {
		pvc, err = v.node.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, claimName, metav1.GetOptions{})
		return kube.Named(pvc, claimName, err)
	})
	if kube.Absent(err, corev1.Resource("persistentvolumeclaims"), claimName) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return v.holds(ctx, pvc.Spec.VolumeName)
}

// holds reports whether the persistent volume of this name is selected.
func (v *volumes) holds(ctx context.Context, name string) (bool, error) {
	if held, known := v.known[name]; known || name == "" {
		return held, nil
	}
	var volume *corev1.PersistentVolume
	err := ask(ctx, func(ctx context.Context) (err error) {
		volume, err = v.node.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		return kube.Named(volume, name, err)
	})
	if err != nil && !kube.Absent(err, corev1.Resource("persistentvolumes"), name) {
		return false, err
	}
	held := err == nil && holds(v.storage, volume)
	if v.known == nil {
		v.known = map[string]bool{}
	}
	v.known[name] = held
	return held, nil
}

// attachment reports whether an attachment is of a selected volume.
func (v *volumes) attachment(ctx context.Context, a *storagev1.VolumeAttachment) (bool, error) {
	if slices.Contains(v.storage.Drivers, a.Spec.Attacher) {
		return true, nil
	}
	if a.Spec.Source.PersistentVolumeName == nil {
		return false, nil
	}
	return v.holds(ctx, *a.Spec.Source.PersistentVolumeName)
}

// claim returns the name of the claim of a pod's volume, or "".
func claim(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}
