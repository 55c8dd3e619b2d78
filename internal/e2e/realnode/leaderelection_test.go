//go:build linux

package realnode_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deployDaemon deploys examples/leaderelection with its fence and waits for its leader.
func deployDaemon(t testing.TB) *app {
	a := deploy(t, "leaderelection/rbac.yaml", "leaderelection/deployment.yaml")
	a.leader = a.awaitLeader("")
	return a
}

// A rolling update replaces all Pods: each leader releases its Lease when its work has ended.
func TestRollOutOfADaemon(t *testing.T) {
	cluster.Need(t)
	t.Parallel()
	a := deployDaemon(t)
	_, err := cluster.Client.AppsV1().Deployments(a.namespace).Patch(t.Context(), "example-daemon",
		types.StrategicMergePatchType, []byte(`{"spec": {"template": {"metadata": {"labels": {"again": "yes"}}}}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	a.eventually("a Pod of the new generation leads", func() bool {
		leader := a.awaitLeader(a.leader.UID)
		return leader.Labels["again"] == "yes"
	})
	a.judge()
	a.report("rolling update")
}
