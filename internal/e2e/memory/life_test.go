package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kubelet"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
)

// life is a set of Pods. One leads until it ends.
type life struct {
	*cluster
	lives   *referee.Lives
	pods    map[string]*corev1.Pod
	alive   map[string]*e2e.Process // the latest process of each Pod
	started int
}

// launch creates a Pod, waits until its node says that it runs, and starts its process.
func (l *life) launch(name, node string) {
	l.t.Helper()
	pods := l.client.CoreV1().Pods(namespace)
	pod, err := pods.Create(l.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "daemon", TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers: []corev1.Container{{Name: "daemon", Image: "none.invalid/none"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(l.t, err)
	l.pods[name] = pod
	l.eventually(func() bool {
		pod, err := pods.Get(l.t.Context(), name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning
	}, "Pod %s runs", name)
	l.begin(name)
}

// begin starts a process of a Pod, with the token that the kubelet mounts.
func (l *life) begin(name string) {
	l.t.Helper()
	content, err := l.server.KubeconfigOf(l.pods[name])
	require.NoError(l.t, err)
	l.started++
	l.alive[name] = l.start("leaderforlife", e2e.Command{
		Name:   fmt.Sprintf("%s-%d", name, l.started),
		Env:    []string{"KUBECONFIG=" + l.write("kubeconfig-"+name, content), "POD_NAMESPACE=" + namespace},
		OnLine: func(line string) { l.lives.Note(name, line) },
	})
}

func (l *life) kill(name string) {
	l.t.Helper()
	require.NoError(l.t, l.alive[name].Kill())
	l.lives.Ended(name, time.Now())
}

func (l *life) successor() string {
	l.t.Helper()
	return next(l.cluster, l.lives.Begun, "somebody leads")
}

// requireWaiting waits until a Pod waits for a leader, for this reason.
func (l *life) requireWaiting(name, leader, reason string) {
	l.t.Helper()
	l.eventually(func() bool {
		for line := range strings.Lines(l.log(l.alive[name])) {
			if strings.Contains(line, `"msg":"waiting"`) && strings.Contains(line, `"pod":"`+leader+`"`) &&
				strings.Contains(line, reason) {
				return true
			}
		}
		return false
	}, "%s waits for %s: %s", name, leader, reason)
}

func TestLeaderForLife(t *testing.T) {
	t.Parallel()
	l := &life{
		cluster: newCluster(t), lives: referee.NewLives(), pods: map[string]*corev1.Pod{},
		alive: map[string]*e2e.Process{},
	}
	pods := l.client.CoreV1().Pods(namespace)
	nodes := map[string]*kubelet.Kubelet{}
	for _, node := range []string{"one", "two"} {
		nodes[node] = kubelet.Start(t.Context(), pods, node)
		t.Cleanup(func() { assert.NoError(t, nodes[node].Close()) })
	}
	l.launch("a", "one")
	require.Equal(t, "a", l.successor())
	l.launch("b", "two")
	l.launch("c", "two")
	l.requireWaiting("b", "a", "its Pod runs")
	l.requireWaiting("c", "a", "its Pod runs")

	l.kill("a") // and the kubelet starts its container again
	l.begin("a")
	require.Equal(t, "a", l.successor(), "it is still the same Pod")

	l.kill("a") // evicted: the Pod has ended, and stays
	pod, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	leader := l.successor()
	other := map[string]string{"b": "c", "c": "b"}[leader]
	require.NotEmpty(t, other)
	l.requireWaiting(other, leader, "its Pod runs")

	require.NoError(t, nodes["two"].Pause()) // it takes its time to end the container
	require.NoError(t, pods.Delete(t.Context(), leader,
		metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	l.eventually(func() bool {
		_, err := l.client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "example-leader", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, "the lock is gone")
	l.requireWaiting(other, leader, "its Pod is terminating")
	require.Empty(t, l.lives.Begun, "two lead")
	l.kill(leader)
	require.NoError(t, nodes["two"].Resume())
	require.Equal(t, other, l.successor())

	l.kill(other)
	require.NoError(t, l.group.Close())
	overlap, n := l.lives.Verdict()
	assert.Empty(t, overlap, "two leaders")
	assert.Equal(t, 4, n)
}
