package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podOf returns a Pod with these containers.
func podOf(phase corev1.PodPhase, containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: containers},
	}
}

func terminated(message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}
}

func TestEndOfAProcessInItsPod(t *testing.T) {
	holder := PodProcess{Lease: name, Pod: "p", UID: "u", Process: "MARK"}
	const ours, another = "bellwether: lease ns/l, process MARK\n", "bellwether: lease ns/l, process OTHER\n"
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status := func(now, last corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: now, LastTerminationState: last}
	}
	none := corev1.ContainerState{}
	changed := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := podOf(corev1.PodRunning, status(terminated(ours), none))
		change(pod)
		return pod
	}
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		ended bool
	}{
		{"runs", podOf(corev1.PodRunning, status(running, none)), false},
		{"its container has ended", podOf(corev1.PodRunning, status(terminated(ours), none)), true},
		{"after a message", podOf(corev1.PodRunning, status(terminated("panic\n"+ours+"out"), none)), true},
		{"and was started again", podOf(corev1.PodRunning, status(running, terminated(ours))), true},
		{"an earlier container has ended", podOf(corev1.PodRunning, status(running, terminated(another))), false},
		{"an earlier container, not yet reported as running", podOf(corev1.PodRunning,
			status(terminated(another), none)), false},
		{"another container has ended", podOf(corev1.PodRunning, status(running, none),
			status(terminated(another), none)), false},
		{"a second container of the Pod", podOf(corev1.PodRunning, status(running, none),
			status(terminated(ours), none)), true},
		{"a sidecar", changed(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses, p.Status.ContainerStatuses = p.Status.ContainerStatuses, nil
		}), true},
		{"another Pod of that name", changed(func(p *corev1.Pod) { p.UID = "v" }), false},
		{"another Pod", changed(func(p *corev1.Pod) { p.Name = "q" }), false},
		{"in another namespace", changed(func(p *corev1.Pod) { p.Namespace = "ms" }), false},
		{"failed, by the control plane", podOf(corev1.PodFailed, status(running, none)), false},
		{"failed, and its container was never reported", podOf(corev1.PodFailed, status(none, none)), false},
		{"failed, without any container", podOf(corev1.PodFailed), false},
		{
			"failed, one container runs", podOf(corev1.PodFailed, status(terminated(""), none), status(running, none)),
			false,
		},
		{"failed, and the next one runs", podOf(corev1.PodFailed, status(terminated(another), none)), false},
		{"succeeded", podOf(corev1.PodSucceeded, status(terminated(ours), none)), true},
		{"all have ended, and start again", podOf(corev1.PodRunning, status(terminated(""), none)), false},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.ended, holder.EndedIn(c.pod)) })
	}
}

// TestPodOfAnotherHolderIsNoProof has records whose holder has not written the annotations.
func TestPodOfAnotherHolderIsNoProof(t *testing.T) {
	mine := Record{}.Acquired(name, "a", 15*time.Second, at(0))
	SetProcess(mine, "MARK")
	mine.Annotations[PodAnnotation] = "p/u/3s"
	_, ok := RecordOf(mine).PodProcess(name)
	require.True(t, ok)
	require.True(t, RecordOf(mine).WrittenBy("MARK"))
	for is, change := range map[string]func(*coordinationv1.Lease){
		"client-go has taken it": func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr.To("b"), ptr.To(int32(1))
		},
		"emptied":           func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") },
		"without a mark":    func(l *coordinationv1.Lease) { SetProcess(l, "") },
		"without a term":    func(l *coordinationv1.Lease) { delete(l.Annotations, TermAnnotation) },
		"without a margin":  func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u" },
		"a negative margin": func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u/-3s" },
		"no margin":         func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u/soon" },
		"without a UID":     func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p//3s" },
		"without a name":    func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "/u/3s" },
		"nothing":           func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "" },
	} {
		t.Run(is, func(t *testing.T) {
			l := mine.DeepCopy()
			change(l)
			_, ok := RecordOf(l).PodProcess(name)
			assert.False(t, ok)
			if strings.HasPrefix(is, "client-go") {
				assert.False(t, RecordOf(l).WrittenBy("MARK"))
			}
		})
	}
	_, ok = Record{}.PodProcess(name)
	assert.False(t, ok)
}
