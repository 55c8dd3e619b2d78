package fencing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestFencerManifests deploys the example's manifests, then runs its container's command line with
// the tokens of its Pods. One of them leads, and the manifests' rights must be enough for it to
// look at all nodes. It is not parallel: it would look after the nodes of other tests, too.
func TestFencerManifests(t *testing.T) {
	w := newWorld(t)
	nodeFences(t)
	// The control plane is one node here; the other Pod has none to run on.
	w.patchNode(goodNode, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
	t.Cleanup(func() {
		_, err := w.client.CoreV1().Nodes().Patch(context.Background(), goodNode, "application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":null}}}`), metav1.PatchOptions{})
		assert.NoError(t, err)
	})
	require.Eventually(t, func() bool {
		_, err := w.client.CoreV1().Namespaces().Get(t.Context(), "fencer", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, poll, "what the same test has deployed before is there still")
	for _, name := range []string{"rbac.yaml", "configuration.yaml", "secret.yaml", "deployment.yaml"} {
		file := filepath.Join(example, name)
		t.Cleanup(func() { assert.NoError(t, shared.Delete(context.Background(), file)) })
		require.NoError(t, shared.Apply(t.Context(), file))
	}
	var pods []corev1.Pod
	require.Eventually(t, func() bool {
		list, err := w.client.CoreV1().Pods("fencer").List(t.Context(),
			metav1.ListOptions{FieldSelector: "status.phase=Running"})
		require.NoError(t, err)
		pods = list.Items
		return len(pods) == 1
	}, patience, poll, "no Pod of the Deployment runs")
	pod := &pods[0]
	assert.Equal(t, goodNode, pod.Spec.NodeName)

	program, err := shared.Program(t.Context(), exampleProgram)
	require.NoError(t, err)
	config, err := shared.ServiceAccount(t.Context(), pod.Namespace, pod.Spec.ServiceAccountName, pod)
	require.NoError(t, err)
	kubeconfig, err := shared.Kubeconfig(config)
	require.NoError(t, err)
	fields := map[string]string{"metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName}
	env := []string{"KUBECONFIG=" + kubeconfig}
	for _, variable := range pod.Spec.Containers[0].Env {
		env = append(env, variable.Name+"="+fields[variable.ValueFrom.FieldRef.FieldPath])
	}
	args := append(pod.Spec.Containers[0].Args, "-health-address=127.0.0.1:0") // as in deploy/components/probes
	p, err := shared.Run(e2e.Command{Name: pod.Name, Path: program, Args: args, Env: env})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	log := func() string {
		text, err := os.ReadFile(p.Log())
		require.NoError(t, err)
		return string(text)
	}
	// No node here is of the type that is configured, and what is built in needs a cloud.
	require.Eventually(t, func() bool { return strings.Contains(log(), "node cannot be fenced") }, patience, poll)
	_, address, _ := strings.Cut(log(), `"answering probes","address":"`)
	address, _, _ = strings.Cut(address, `"`)
	get := func(path string) string {
		response, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		assert.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
		return string(body)
	}
	get("/livez")
	get("/readyz")
	for _, line := range []string{
		"bellwether_leaderelection_leading 1", `bellwether_fencing_checks_total{result="error"} `,
		`bellwether_fencing_fences{phase="GivenUp"} 0`,
	} {
		assert.Contains(t, get("/metrics"), "\n"+line)
	}
	require.NoError(t, p.Terminate())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(t, err)
	assert.Zero(t, exit.Code, "%v: %s", exit, log())
	for _, wrong := range []string{"forbidden", "not allowed", "rights are missing", "a watch has ended"} {
		assert.NotContains(t, log(), wrong, "the rights are not enough")
	}
}
