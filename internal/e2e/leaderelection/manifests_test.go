package leaderelection_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// example is where the manifests are that users copy.
const example = "../../../examples/leaderelection"

// TestManifests deploys the example as its manifests say, then runs its container's command line
// with the tokens of its Pods: what is written there has to be enough.
func TestManifests(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{"node"}})
	require.NoError(t, cp.Apply(t.Context(), filepath.Join(example, "rbac.yaml")))
	require.NoError(t, cp.Apply(t.Context(), filepath.Join(example, "fence.yaml")))
	require.NoError(t, cp.Apply(t.Context(), filepath.Join(example, "deployment.yaml")))
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	var pods *corev1.PodList
	require.Eventually(t, func() bool {
		pods, err = client.CoreV1().Pods("default").List(t.Context(),
			metav1.ListOptions{LabelSelector: "app=example-daemon", FieldSelector: "status.phase=Running"})
		return err == nil && len(pods.Items) == 3
	}, patience, poll, "the Deployment's Pods do not run")

	program, err := shared.Program(t.Context(), exampleProgram, e2e.Race()...)
	require.NoError(t, err)
	working, health := make(chan string, 1), make(chan string, 2)
	start := func(pod corev1.Pod) *e2e.Process {
		config, err := cp.ServiceAccount(t.Context(), pod.Namespace, pod.Spec.ServiceAccountName, &pod)
		require.NoError(t, err)
		kubeconfig, err := cp.Kubeconfig(config)
		require.NoError(t, err)
		container := pod.Spec.Containers[0]
		assert.Equal(t, "metadata.namespace", container.Env[0].ValueFrom.FieldRef.FieldPath)
		args := []string{"-work-interval=20ms", "-health-address=127.0.0.1:0"} // as in deploy/components/probes
		for _, arg := range container.Args {
			args = append(args, strings.ReplaceAll(arg, "$("+container.Env[0].Name+")", pod.Namespace))
		}
		p, err := cp.Run(e2e.Command{
			Name: pod.Name, Path: program, Args: args,
			Env: []string{"KUBECONFIG=" + kubeconfig, "GORACE=halt_on_error=1 atexit_sleep_ms=0"},
			OnLine: func(line string) {
				if _, address, ok := strings.Cut(line, `"answering probes","address":"`); ok {
					health <- strings.TrimSuffix(address, `"}`)
				}
				if strings.Contains(line, `"working"`) {
					select {
					case working <- pod.Name:
					default: // without a reader it goes on working
					}
				}
			},
		})
		require.NoError(t, err)
		return p
	}
	c := &cluster{t: t, cp: cp}
	first := start(pods.Items[0])
	assert.Equal(t, pods.Items[0].Name, <-working)
	second := start(pods.Items[1])
	for range 2 { // the leader and the candidate
		address := <-health
		for _, path := range []string{"/livez", "/readyz"} {
			response, err := http.Get("http://" + address + path)
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, response.StatusCode, path)
			require.NoError(t, response.Body.Close())
		}
	}
	requireFenced(t, cp, pods.Items[0], pods.Items[1])
	require.NoError(t, first.Terminate())
	c.requireExit(first, 0)
	for name := range working {
		if name == pods.Items[1].Name {
			break
		}
	}
	require.NoError(t, second.Terminate())
	c.requireExit(second, 0)
	for _, p := range []*e2e.Process{first, second} {
		assert.NotContains(t, c.log(p), "not allowed", "the Role is not enough")
	}
}

// requireFenced waits until the leader's Pod may write what the other one may not.
func requireFenced(t *testing.T, cp *e2e.ControlPlane, leader, other corev1.Pod) {
	t.Helper()
	require.NoError(t, cp.Grant(t.Context(), "system:serviceaccount:default:"+leader.Spec.ServiceAccountName, "default",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}))
	write := func(pod corev1.Pod) error {
		config, err := cp.ServiceAccount(t.Context(), pod.Namespace, pod.Spec.ServiceAccountName, &pod)
		require.NoError(t, err)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		_, err = client.CoreV1().ConfigMaps("default").
			Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "work-"}},
				metav1.CreateOptions{})
		return err
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.ErrorContains(c, write(other), "Pod "+string(other.UID)+" is not the leader")
	}, patience, 2*poll)
	require.NoError(t, write(leader))
}
