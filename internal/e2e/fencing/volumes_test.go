package fencing_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// mounted makes a pod on the machine with a volume that has to be attached, and is, and is in use
// as far as the kubelet has said. It returns the name of the VolumeAttachment.
func (l *lab) mounted() string {
	l.t.Helper()
	l.patchNode(l.machine, `{"metadata":{"annotations":{"volumes.kubernetes.io/`+
		`controller-managed-attach-detach":"true"}}}`)
	l.volume()
	l.pod("data-0", l.machine, func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
		pod.Spec.Tolerations = []corev1.Toleration{{
			Key:      corev1.TaintNodeUnreachable,
			Operator: corev1.TolerationOpExists,
		}}
	})
	attachment := l.requireAttached(l.machine)
	l.patchNode(l.machine,
		fmt.Sprintf(`{"status":{"volumesInUse":["kubernetes.io/csi/%s^%s"]}}`, driver, l.world.namespace), "status")
	return attachment
}

// attached says whether a VolumeAttachment is there.
func (l *lab) attached(name string) bool {
	l.t.Helper()
	_, err := l.client.StorageV1().VolumeAttachments().Get(l.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(l.t, err)
	}
	return err == nil
}

// A machine that uses a volume is lost. Once its power is proved to be off, the controller
// manager's attach-detach controller takes the volume from it within seconds.
func TestVolumeIsFreeOnceThePowerIsOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	attachment := l.mounted()
	fencer := l.start()
	l.checked()
	l.lose()
	l.eventually("the power is cut", func() bool { return l.cuts() == 1 })
	began := time.Now()
	attached := l.attached(attachment) // asked first: it may be proved now
	released := []v1alpha1.Phase{v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring, v1alpha1.PhaseBooting}
	assert.True(t, attached || slices.Contains(released, l.phase()), "what is not proved yet frees nothing")
	l.eventually("the volume is free", func() bool { return !l.attached(attachment) })
	took := time.Since(began)
	t.Logf("the VolumeAttachment is gone %.1f s after the power was cut", took.Seconds())
	assert.Less(t, took, 2*time.Minute, "without a fence it takes 6 min")
	assert.Nil(t, l.find("data-0"))
	l.reaches(v1alpha1.PhaseFinal)
	l.requireUnmarked()
	l.requireNoBreach()
	l.stop(fencer)
}

// The same with a pod that somebody deletes by force, in the place of a fence: the volume stays
// where it is.
func TestVolumeOfAPodThatIsDeletedByForceStays(t *testing.T) {
	t.Parallel()
	l := newPaperLab(t)
	attachment := l.mounted()
	l.lose()
	l.world.forget("data-0")
	l.eventually("the pod is gone", func() bool { return l.find("data-0") == nil })
	l.never("no volume is taken from a node that may use it", 20*time.Second,
		func() bool { return !l.attached(attachment) })
}
