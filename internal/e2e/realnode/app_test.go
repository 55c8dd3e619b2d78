//go:build linux

package realnode_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

const (
	// patience is how long a test waits for what takes seconds on an idle machine.
	patience = 2 * time.Minute
	poll     = 50 * time.Millisecond

	// timesEnv is how often each way to end is tried. Default: once.
	timesEnv = "BELLWETHER_REALNODE_TIMES"
)

func times() int {
	if n, err := strconv.Atoi(os.Getenv(timesEnv)); err == nil {
		return n
	}
	return 1
}

// app is an example in a namespace of its own.
type app struct {
	t         testing.TB
	namespace string
	history   *history
	leader    corev1.Pod
}

// deploy applies manifests of an example in a new namespace.
func deploy(t testing.TB, manifests ...string) *app {
	t.Helper()
	namespace, err := cluster.Namespace(t.Context(), "app")
	require.NoError(t, err)
	a := &app{t: t, namespace: namespace}
	a.history = a.watchPods()
	for _, manifest := range manifests {
		a.apply(manifest)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		assert.NoError(t, cluster.Client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	})
	return a
}

// apply creates the objects of a manifest of an example as they are, but for the namespace.
func (a *app) apply(manifest string) {
	a.t.Helper()
	content, err := os.ReadFile(filepath.Join("../../../examples", manifest))
	require.NoError(a.t, err)
	content = []byte(strings.ReplaceAll(string(content), "namespace: default", "namespace: "+a.namespace))
	copied := filepath.Join(a.t.TempDir(), filepath.Base(manifest))
	require.NoError(a.t, os.WriteFile(copied, content, 0o600))
	require.NoError(a.t, cluster.Apply(a.t.Context(), copied))
}

func (a *app) pods() []corev1.Pod {
	a.t.Helper()
	pods, err := cluster.Client.CoreV1().Pods(a.namespace).List(a.t.Context(), metav1.ListOptions{})
	require.NoError(a.t, err)
	return pods.Items
}

// awaitLeader returns the Pod that has begun to lead last, once it is another one than that.
func (a *app) awaitLeader(not types.UID) (leader corev1.Pod) {
	a.t.Helper()
	a.eventually("another leader than "+string(not), func() bool {
		all := a.history.reigns()
		if len(all) == 0 || all[len(all)-1].pod == not {
			return false
		}
		pods := a.pods()
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.UID == all[len(all)-1].pod })
		if i >= 0 {
			leader = pods[i]
		}
		return i >= 0
	})
	return leader
}

// signal sends signals to the leader's process.
func (a *app) signal(signals ...syscall.Signal) {
	a.t.Helper()
	for _, s := range signals {
		require.NoError(a.t, realnode.Signal(a.container(a.leader), s))
		<-time.After(20 * time.Millisecond) // signals may overtake each other
	}
}

// container is the ID of the latest container of a Pod. A process may be at work before the kubelet's
// report of it has come.
func (a *app) container(pod corev1.Pod) (id string) {
	a.t.Helper()
	a.eventually("a container of "+pod.Name+" is reported", func() bool {
		id = a.history.container(pod.UID)
		return id != ""
	})
	return id
}

// alive reports whether the latest container of a Pod has processes.
func (a *app) alive(pod corev1.Pod) bool {
	a.t.Helper()
	processes, err := realnode.Processes(a.container(pod))
	require.NoError(a.t, err)
	return len(processes) > 0
}

// deleteLeader deletes the leader's Pod; with grace nil in its own time.
func (a *app) deleteLeader(grace *int64) {
	a.t.Helper()
	require.NoError(a.t, cluster.Client.CoreV1().Pods(a.namespace).Delete(a.t.Context(), a.leader.Name,
		metav1.DeleteOptions{GracePeriodSeconds: grace}))
}

// eventually waits until it is so, and says what the Pods are if it does not become so.
func (a *app) eventually(what string, so func() bool) {
	a.t.Helper()
	for deadline := time.Now().Add(patience); !so(); <-time.After(poll) {
		if time.Now().After(deadline) {
			for _, pod := range a.pods() {
				status, _ := json.Marshal(pod.Status)
				a.t.Logf("%s on %s: %s", pod.Name, pod.Spec.NodeName, status)
			}
			a.report("so far")
			require.FailNow(a.t, "not within "+patience.String()+": "+what)
		}
	}
}

// claimed reports whether all that has been said of the first leader's container.
func (a *app) claimed(claims ...claim) bool {
	for _, c := range claims {
		said := func(f finding) bool { return f.Claim == c }
		if !slices.ContainsFunc(a.history.about(a.leader.UID), said) {
			return false
		}
	}
	return true
}

// report logs what has been said of the first leader's container, and when.
func (a *app) report(what string) {
	a.t.Helper()
	all := a.history.reigns()
	if len(all) == 0 {
		return
	}
	for _, f := range a.history.about(all[0].pod) {
		if f.Claim == ended {
			continue // another one says which
		}
		a.t.Logf("%s | %s | %s | alive: %t | %.3f s after it led", what, f.Claim, f.Says, f.Alive,
			float64(f.At.UnixMicro())/1e6-all[0].last)
	}
}
