package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// election is a Lease, and an API server that has it.
type election struct {
	t          *testing.T
	server     *apisim.Standalone
	client     kubernetes.Interface
	kubeconfig string
	dir        string
}

func newElection(t *testing.T) *election {
	t.Helper()
	server, err := apisim.Listen(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() }) // the test may have closed it
	e := &election{t: t, server: server, dir: t.TempDir()}
	e.client, err = kubernetes.NewForConfig(server.Client("referee").Config())
	require.NoError(t, err)
	content, err := server.Kubeconfig("process", "default")
	require.NoError(t, err)
	e.kubeconfig = filepath.Join(e.dir, "kubeconfig")
	require.NoError(t, os.WriteFile(e.kubeconfig, content, 0o644))
	return e
}

// bellwether returns one that is not started. It has no terminal.
func (e *election) bellwether(arguments ...string) *subprocess.Child {
	e.t.Helper()
	c := subprocess.New(e.t, "bellwether")
	c.Args = append([]string{"bellwether", "run", "--kubeconfig", e.kubeconfig, "--lease", "l"}, arguments...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// start starts a bellwether that runs a script.
func (e *election) start(script string, flags ...string) *subprocess.Child {
	e.t.Helper()
	return e.bellwether(append(flags, "--", "/bin/sh", "-c", script)...).Start()
}

// lease returns the Lease.
func (e *election) lease() *coordinationv1.Lease {
	e.t.Helper()
	l, err := e.client.CoordinationV1().Leases("default").Get(e.t.Context(), "l", metav1.GetOptions{})
	require.NoError(e.t, err)
	return l
}

// holder returns who holds the Lease; "" if it is free.
func (e *election) holder() string {
	e.t.Helper()
	if h := e.lease().Spec.HolderIdentity; h != nil {
		return *h
	}
	return ""
}

// lead gives the Lease to another process, for an hour.
func (e *election) lead() {
	e.t.Helper()
	other, hour, now := "other", int32(3600), metav1.NowMicro()
	_, err := e.client.CoordinationV1().Leases("default").Create(e.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "l"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &other, LeaseDurationSeconds: &hour, AcquireTime: &now, RenewTime: &now,
		},
	}, metav1.CreateOptions{})
	require.NoError(e.t, err)
}

// await reads lines until one has this text, and returns all of them.
func await(t *testing.T, c *subprocess.Child, text string) string {
	t.Helper()
	var all strings.Builder
	for {
		line, ok := c.LineOrEnd()
		all.WriteString(line + "\n")
		require.True(t, ok, "%q did not come: %s", text, &all)
		if strings.Contains(line, text) {
			return all.String()
		}
	}
}

// candidate starts a bellwether that waits for its Lease.
func (e *election) candidate(flags ...string) *subprocess.Child {
	e.t.Helper()
	e.lead()
	c := e.start("echo started", flags...)
	await(e.t, c, `"following"`)
	return c
}

// childOf returns the process number of the child of a supervisor.
func childOf(t *testing.T, of *subprocess.Child) int {
	t.Helper()
	children := process.Children(of.Process.Pid)
	require.Len(t, children, 1)
	return children[0]
}

// eventually waits until it is so.
func eventually(t *testing.T, so func() bool, what string) {
	t.Helper()
	require.Eventually(t, so, 50*time.Second, 10*time.Millisecond, what)
}
