package lease

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var holder = named{lease: types.NamespacedName{Namespace: "ns", Name: "l"}, pod: "p", uid: "u", process: "MARK"}

// podOf returns the Pod of holder with these containers.
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
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.ended, holder.endedIn(c.pod)) })
	}
}

// badgeOf returns the badge of a process with a termination log.
func badgeOf(t *testing.T, log *zap.Logger) *badge {
	t.Helper()
	file := filepath.Join(t.TempDir(), "termination-log")
	require.NoError(t, os.WriteFile(file, []byte("before\n"), 0o600))
	return &badge{
		pod:   Pod{Name: "p", UID: "u", MinUptime: time.Minute, Log: file},
		lease: holder.lease, process: "MARK", margin: 3 * time.Second, log: log,
	}
}

func TestRecordNamesThePod(t *testing.T) {
	b := badgeOf(t, zap.NewNop())
	l := Record{}.Acquired(holder.lease, "a", 15*time.Second, at(0))
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, ProcessAnnotation, "MARK")
	b.annotate(l, 59*time.Second)
	_, ok := RecordOf(l).named(holder.lease)
	assert.False(t, ok, "before MinUptime")
	b.annotate(l, time.Minute)
	b.annotate(l, time.Hour)
	n, ok := RecordOf(l).named(holder.lease)
	require.True(t, ok)
	want := holder
	want.margin = 3 * time.Second
	assert.Equal(t, want, n)
	message, err := os.ReadFile(b.pod.Log)
	require.NoError(t, err)
	assert.Equal(t, "before\nbellwether: lease ns/l, process MARK\n", string(message), "once")

	released := RecordOf(l).released(at(1))
	b.annotate(released, time.Hour)
	assert.NotContains(t, released.Annotations, PodAnnotation)
	next := RecordOf(l).Acquired(holder.lease, "b", 15*time.Second, at(1))
	assert.NotContains(t, next.Annotations, PodAnnotation)
}

// TestNothingNamesAPodWithoutAMark has a process that is in no container, or may not write.
func TestNothingNamesAPodWithoutAMark(t *testing.T) {
	core, logs := logtest.New(zap.InfoLevel)
	b := badgeOf(t, zap.New(core))
	b.pod.Log += ".absent"
	l := Record{}.Acquired(holder.lease, "a", 15*time.Second, at(0))
	b.annotate(l, time.Hour)
	b.annotate(l, time.Hour)
	assert.NotContains(t, l.Annotations, PodAnnotation)
	assert.Equal(t, 1, logs.Len())
	assert.NoFileExists(t, b.pod.Log)
}

// TestPodOfAnotherHolderIsNoProof has records whose holder has not written the annotations.
func TestPodOfAnotherHolderIsNoProof(t *testing.T) {
	mine := Record{}.Acquired(holder.lease, "a", 15*time.Second, at(0))
	mine.Annotations[ProcessAnnotation], mine.Annotations[PodAnnotation] = "MARK", "p/u/3s"
	_, ok := RecordOf(mine).named(holder.lease)
	require.True(t, ok)
	require.True(t, RecordOf(mine).writtenBy("MARK"))
	for name, change := range map[string]func(*coordinationv1.Lease){
		"client-go has taken it": func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity, l.Spec.LeaseTransitions = ptr.To("b"), ptr.To(int32(1))
		},
		"emptied":           func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("") },
		"without a mark":    func(l *coordinationv1.Lease) { delete(l.Annotations, ProcessAnnotation) },
		"without a margin":  func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u" },
		"a negative margin": func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u/-3s" },
		"no margin":         func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p/u/soon" },
		"without a UID":     func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "p//3s" },
		"without a name":    func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "/u/3s" },
		"nothing":           func(l *coordinationv1.Lease) { l.Annotations[PodAnnotation] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			l := mine.DeepCopy()
			change(l)
			_, ok := RecordOf(l).named(holder.lease)
			assert.False(t, ok)
			if strings.HasPrefix(name, "client-go") {
				assert.False(t, RecordOf(l).writtenBy("MARK"))
			}
		})
	}
	_, ok = Record{}.named(holder.lease)
	assert.False(t, ok)
}
