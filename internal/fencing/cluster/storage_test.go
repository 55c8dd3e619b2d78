package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/fencing/api"
)

func TestStorage(t *testing.T) {
	t.Parallel()
	volume := func(name, driver, class string, labels map[string]string) runtime.Object {
		v := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       corev1.PersistentVolumeSpec{StorageClassName: class},
		}
		if driver != "" {
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		}
		return v
	}
	claimOf := func(name, volume string) runtime.Object {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume},
		}
	}
	client := fake.NewClientset(
		volume("san", "san.example", "", nil), claimOf("san", "san"), claimOf("pod-scratch", "san"),
		volume("nas", "nas.example", "nas", nil), claimOf("nas", "nas"),
		volume("iscsi", "", "", map[string]string{"array": "a"}), claimOf("iscsi", "iscsi"),
		volume("none", "", "", nil), claimOf("none", "none"),
		claimOf("unbound", ""), claimOf("lost", "lost"),
	)
	node, err := New(client, Config{Name: "node", UID: "uid", Incident: 1})
	require.NoError(t, err)
	byClaim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	inline := func(driver string) corev1.VolumeSource {
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driver}}
	}
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	san := api.Storage{Drivers: []string{"san.example"}}
	for name, test := range map[string]struct {
		storage api.Storage
		volumes []corev1.VolumeSource
		want    bool
	}{
		"no volume":                 {san, nil, false},
		"only the machine's":        {san, []corev1.VolumeSource{emptyDir}, false},
		"by the driver":             {san, []corev1.VolumeSource{byClaim("san")}, true},
		"beside the machine's":      {san, []corev1.VolumeSource{emptyDir, byClaim("san")}, true},
		"by the driver, inline":     {san, []corev1.VolumeSource{inline("san.example")}, true},
		"of another driver, inline": {san, []corev1.VolumeSource{inline("nas.example")}, false},
		"of another driver":         {san, []corev1.VolumeSource{byClaim("nas")}, false},
		"ephemeral": {
			san,
			[]corev1.VolumeSource{{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			true,
		},
		"a pod that writes elsewhere too": {san, []corev1.VolumeSource{byClaim("san"), byClaim("nas")}, false},
		"a pod that also writes to an unknown place": {
			san,
			[]corev1.VolumeSource{byClaim("san"), {NFS: &corev1.NFSVolumeSource{}}},
			false,
		},
		"unless that is fenced as well": {
			api.Storage{Drivers: []string{"san.example"}, Classes: []string{"nas"}},
			[]corev1.VolumeSource{byClaim("san"), byClaim("nas")},
			true,
		},
		"by the class":         {api.Storage{Classes: []string{"nas"}}, []corev1.VolumeSource{byClaim("nas")}, true},
		"no class is no class": {api.Storage{Classes: []string{""}}, []corev1.VolumeSource{byClaim("none")}, false},
		"by labels of the volume": {
			api.Storage{Volumes: []labels.Selector{labels.SelectorFromSet(labels.Set{"array": "a"})}},
			[]corev1.VolumeSource{byClaim("iscsi")},
			true,
		},
		"by other labels": {
			api.Storage{Volumes: []labels.Selector{labels.SelectorFromSet(labels.Set{"array": "b"})}},
			[]corev1.VolumeSource{byClaim("iscsi")},
			false,
		},
		"everything selects nothing": {
			api.Storage{Drivers: []string{"x"}, Volumes: []labels.Selector{labels.Everything()}},
			[]corev1.VolumeSource{byClaim("iscsi")},
			false,
		},
		"a claim without a volume": {san, []corev1.VolumeSource{byClaim("unbound")}, false},
		"a claim that is gone":     {san, []corev1.VolumeSource{byClaim("gone")}, false},
		"a volume that is gone":    {san, []corev1.VolumeSource{byClaim("lost")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("pod")
			for _, source := range test.volumes {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: source})
			}
			v := &volumes{node: node, storage: &test.storage}
			only, err := v.only(t.Context(), &p)
			require.NoError(t, err)
			assert.Equal(t, test.want, only)
		})
	}
}
