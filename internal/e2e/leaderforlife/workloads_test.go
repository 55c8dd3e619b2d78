package leaderforlife_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var (
	selected = map[string]string{"app": "lead"}
	selector = &metav1.LabelSelector{MatchLabels: selected}
	template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: spec(handNode)}
)

func (c *cluster) replicaSet() {
	_, err := c.client.AppsV1().ReplicaSets(c.namespace).Create(c.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "lead"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(1)), Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) deployment() {
	_, err := c.client.AppsV1().Deployments(c.namespace).Create(c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "lead"},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(1)), Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) statefulSet() {
	_, err := c.client.AppsV1().StatefulSets(c.namespace).Create(c.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "lead"},
		Spec:       appsv1.StatefulSetSpec{Replicas: ptr.To(int32(1)), Selector: selector, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// find waits for the Pod whose name begins so.
func (c *cluster) find(prefix string) *corev1.Pod {
	c.t.Helper()
	var found *corev1.Pod
	require.Eventually(c.t, func() bool {
		pods, err := c.client.CoreV1().Pods(c.namespace).List(c.t.Context(), metav1.ListOptions{})
		require.NoError(c.t, err)
		for _, pod := range pods.Items {
			if strings.HasPrefix(pod.Name, prefix) {
				found = &pod
			}
		}
		return found != nil
	}, patience, poll, "no Pod %s…", prefix)
	return found
}

// daemon is a process of examples/leaderforlife.
type daemon struct {
	*e2e.Process
	mu    sync.Mutex
	lines []string
}

const program = "github.com/bellwether-k8s/bellwether/examples/leaderforlife"

// daemon starts one in a Pod.
func (c *cluster) daemon(name string, pod *corev1.Pod) *daemon {
	c.t.Helper()
	config, err := shared.ServiceAccount(c.t.Context(), c.namespace, pod.Spec.ServiceAccountName, pod)
	require.NoError(c.t, err)
	kubeconfig, err := shared.Kubeconfig(config)
	require.NoError(c.t, err)
	path, err := shared.Program(c.t.Context(), program, e2e.Race()...)
	require.NoError(c.t, err)
	d := &daemon{}
	d.Process, err = shared.Run(e2e.Command{
		Name: c.namespace + "-" + name, Path: path,
		Env: []string{
			"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + c.namespace,
			"GORACE=halt_on_error=1 atexit_sleep_ms=0",
		},
		OnLine: func(line string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.lines = append(d.lines, line)
		},
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = d.Kill() })
	return d
}

func (d *daemon) says(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Contains(strings.Join(d.lines, "\n"), text)
}

func (d *daemon) requireLine(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return d.says(text) }, patience, poll, "%s never says %q", d.Log(), text)
}
