package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestControlPlane shares one control plane between everything that does not break it for others.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	start := time.Now()
	cp := e2e.Start(t, e2e.Options{})
	t.Logf("ready after %s", time.Since(start).Round(time.Millisecond))

	version, err := clientFor(t, cp.Admin()).Discovery().ServerVersion()
	require.NoError(t, err)
	assert.Regexp(t, `^v1\.\d+\.\d+$`, version.GitVersion)

	for name, test := range map[string]func(*testing.T, *e2e.ControlPlane){
		"a user may do what was granted, no more":    userMayDoWhatWasGranted,
		"a grant may cover the cluster":              grantMayCoverTheCluster,
		"a service account is a user":                serviceAccountIsAUser,
		"a token is bound to a Pod":                  tokenIsBoundToAPod,
		"a kubeconfig file is as good":               kubeconfigIsAsGood,
		"the audit log tells users apart":            auditTellsUsersApart,
		"the audit log shows a watch while it lasts": auditShowsAWatch,
		"a program of ours is built and run":         programIsBuiltAndRun,
		"a proxy fails one client only":              proxyFailsOneClientOnly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, cp)
		})
	}
}

func TestServersPauseAndReturnWithTheirData(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{})
	client := clientFor(t, cp.Admin())
	namespace, err := cp.Namespace(t.Context(), "faults")
	require.NoError(t, err)
	createConfigMap(t, client, namespace, "kept")

	for _, server := range []*e2e.Process{cp.APIServer, cp.Etcd} {
		require.NoError(t, server.Pause())
		assert.Error(t, get(t, client, namespace, "kept", 500*time.Millisecond), "served while paused")
		require.NoError(t, server.Resume())
		requireReady(t, cp)
		assert.NoError(t, get(t, client, namespace, "kept", patience))

		pid := server.Pid()
		require.NoError(t, server.Kill())
		assert.Error(t, get(t, client, namespace, "kept", 500*time.Millisecond), "served while dead")
		require.NoError(t, server.Restart())
		assert.NotEqual(t, pid, server.Pid())
		requireReady(t, cp)
		require.NoError(t, get(t, client, namespace, "kept", patience))
	}
}

func TestInterruptedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := e2e.New(ctx, e2e.Options{})
		ended <- err
	}()
	require.Eventually(t, func() bool {
		logs, err := filepath.Glob(filepath.Join(dir, "*", "etcd.log"))
		return err == nil && len(logs) > 0
	}, patience, poll)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestReadyNamesDeadProcesses(t *testing.T) {
	t.Parallel()
	cp, err := e2e.New(t.Context(), e2e.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, cp.Close())
		assert.NoDirExists(t, cp.Dir)
	})
	require.NoError(t, cp.Etcd.Kill())
	err = cp.Ready(t.Context())
	require.ErrorContains(t, err, "etcd: signal: killed")
	assert.ErrorContains(t, err, `"level":"info"`, "the end of etcd's log")
}

func TestFailedStartLeavesItsLogsAndNothingRunning(t *testing.T) {
	t.Parallel()
	_, err := e2e.New(t.Context(), e2e.Options{Nodes: []string{"not a name"}})
	require.ErrorContains(t, err, "create node not a name") // goleak sees what runs on
	logs := regexp.MustCompile(`logs in ([^)]+)`).FindStringSubmatch(err.Error())
	require.Len(t, logs, 2, err)
	assert.FileExists(t, filepath.Join(logs[1], "kube-apiserver.log"))
	require.NoError(t, os.RemoveAll(logs[1]))

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e2e.New(canceled, e2e.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

func programIsBuiltAndRun(t *testing.T, cp *e2e.ControlPlane) {
	path, err := cp.Program(t.Context(), "./cmd/prepare")
	require.NoError(t, err)
	again, err := cp.Program(t.Context(), "./cmd/prepare")
	require.NoError(t, err)
	assert.Equal(t, path, again)
	_, err = cp.Program(t.Context(), "./cmd/nonexistent")
	require.ErrorContains(t, err, "nonexistent")

	var output transcript
	process, err := cp.Run(e2e.Command{Name: "prepare", Path: path, OnLine: output.add})
	require.NoError(t, err)
	assert.Zero(t, end(t, process).Code)
	assert.Empty(t, output.read(), "everything was built before")
	assert.Equal(t, cp.Dir, filepath.Dir(process.Log()))
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func requireReady(t *testing.T, cp *e2e.ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, cp.Ready(ctx))
}

func createConfigMap(t *testing.T, client kubernetes.Interface, namespace, name string,
	owners ...metav1.OwnerReference,
) {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// get reads a ConfigMap with a time limit.
func get(t *testing.T, client kubernetes.Interface, namespace, name string, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	return err
}
