package fencing_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// The example runs beside the cluster with nothing but a kubeconfig. It is not parallel: it looks
// at all nodes.
func TestFencerOutsideTheCluster(t *testing.T) {
	w := newWorld(t)
	fences := nodeFences(t)
	program, err := shared.Program(t.Context(), exampleProgram)
	require.NoError(t, err)
	_, err = w.client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "fence-config-node-" + goodNode},
		Data: map[string]string{"config.properties": "node_name=" + goodNode +
			"\nisolation=mark-unschedulable\npower_management=nothing\nrecovery=\n"},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	text := func(p *e2e.Process) string {
		text, err := os.ReadFile(p.Log())
		require.NoError(t, err)
		return string(text)
	}
	ends := func(p *e2e.Process) e2e.Exit {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		exit, err := p.Wait(ctx)
		require.NoError(t, err, text(p))
		return exit
	}
	run := func(name string, user *rest.Config, args ...string) *e2e.Process {
		kubeconfig, err := shared.Kubeconfig(user)
		require.NoError(t, err)
		p, err := shared.Run(e2e.Command{
			Name: w.namespace + "-" + name, Path: program,
			Args: append([]string{"-kubeconfig", kubeconfig, "-outside-cluster", "-namespace", w.namespace}, args...),
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Kill() })
		return p
	}

	// Who may write nothing learns what would be done.
	const reader = "reads-what-a-fencer-reads"
	require.NoError(t, shared.Grant(t.Context(), reader, "",
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"nodes", "configmaps"},
			Verbs: []string{"get", "list", "watch"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"fencing.bellwether.dev"}, Resources: []string{"nodefences"},
			Verbs: []string{"get", "list", "watch"},
		},
	))
	p := run("assess", shared.User(reader), "-assess", "-observation", "1s", "-only-configured")
	assert.Equal(t, 1, ends(p).Code, text(p))
	assert.Contains(t, text(p), goodNode+"\tby ")
	assert.Contains(t, text(p), "method must be built in or defined as fence-method-nothing")
	assert.Contains(t, text(p), "1 of 1 nodes could not be fenced: "+goodNode)
	assert.NotContains(t, text(p), "forbidden")

	// It runs, and ends when it is asked to.
	before, err := fences.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	p = run("run", shared.Admin(), "-only-configured")
	t.Cleanup(func() {
		err := w.client.CoordinationV1().Leases(w.namespace).Delete(context.Background(), "fencer",
			metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			assert.NoError(t, err)
		}
	})
	require.Eventually(t, func() bool {
		return strings.Contains(text(p), "no node has a usable configuration")
	}, patience, poll, "%s", "it does not run")
	require.NoError(t, p.Terminate())
	assert.Zero(t, ends(p).Code, text(p))
	after, err := fences.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, after.Items, len(before.Items))
}
