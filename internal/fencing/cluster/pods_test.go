package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// pod makes a pod that has been started.
func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Unix(1, 0)}},
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func ownedBy(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "owner", Controller: ptr.To(true)}}
	}
}

func withClaim(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
}

func withTolerations(tolerations ...corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = tolerations }
}

func unstarted(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }

func deletedWith(grace int64, phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, &grace
		p.Status.Phase = phase
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	pods := []corev1.Pod{
		pod("daemon", ownedBy("DaemonSet"), withClaim),
		pod("other-b", ownedBy("ReplicaSet")),
		pod("other-a"),
		pod("volume", ownedBy("ReplicaSet"), withClaim),
		pod("inline", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}},
			}
		}),
		pod("stateful-1", ownedBy("StatefulSet"), withClaim),
		pod("stateful-0", ownedBy("StatefulSet")),
	}
	order(pods)
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	assert.Equal(t, []string{"stateful-0", "stateful-1", "inline", "volume", "other-a", "other-b", "daemon"}, names)
}

func TestReleased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"a pod that runs": {pod("p"), false},
		"one that has failed": {pod("p",
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
		"one that is to end by itself":                  {pod("p", deletedWith(30, corev1.PodRunning)), false},
		"one that has ended within its grace period":    {pod("p", deletedWith(30, corev1.PodFailed)), false},
		"one that was deleted by force, but not failed": {pod("p", deletedWith(0, corev1.PodRunning)), false},
		"one that only its finalizers keep":             {pod("p", deletedWith(0, corev1.PodFailed)), true},
		"one that succeeded, which its finalizers keep": {pod("p", deletedWith(0, corev1.PodSucceeded)), true},
		"one whose deletion has no grace period": {pod("p",
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, isReleased(&test.pod))
		})
	}
}

func TestReturns(t *testing.T) {
	t.Parallel()
	everything := withTolerations(corev1.Toleration{Operator: corev1.TolerationOpExists})
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"a daemon's pod that has been started is released": {pod("p", ownedBy("DaemonSet"), everything), false},
		"also one that is said to run, since the time is unknown": {
			pod("p", ownedBy("DaemonSet"), func(p *corev1.Pod) { p.Status.StartTime = nil }), false,
		},
		"also one that its kubelet has begun with": {
			pod("p", ownedBy("DaemonSet"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), false,
		},
		"a daemon's pod made meanwhile stays":                  {pod("p", ownedBy("DaemonSet"), unstarted), true},
		"a pod that tolerates everything, made meanwhile, too": {pod("p", everything, unstarted), true},
		"one that tolerates the fence, too": {
			pod("p", unstarted,
				withTolerations(corev1.Toleration{Key: v1alpha1.TaintFenced, Operator: corev1.TolerationOpExists})),
			true,
		},
		"what has not begun and does not tolerate it goes elsewhere": {pod("p", unstarted), false},
		"other tolerations do not count": {
			pod("p", unstarted, withTolerations(
				corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists},
				corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			)), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, returns(&test.pod))
		})
	}
}
