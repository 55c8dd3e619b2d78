//go:build linux

package realnode_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
)

const fenceSettings = `node_name={{.NodeName}}
isolation=mark-unschedulable
power_management=plug-off plug-on
recovery=mark-schedulable
not_ready_for=1s
power_wait=1s
boot_grace=1m
`

// guard starts a fencer that may switch the node off and on. Its process is beside the nodes, and it
// says that it is on another one. cut is when the power has been cut, in seconds.
func (f *fleet) guard() (rack *fencingtest.Rack, cut func() float64) {
	f.t.Helper()
	namespace := "fencer-of-" + f.ring.namespace // the manifest creates it
	manifest, err := os.ReadFile("../../../examples/fencer/rbac.yaml")
	require.NoError(f.t, err)
	rights := filepath.Join(f.t.TempDir(), "rbac.yaml")
	require.NoError(f.t, os.WriteFile(rights, []byte(strings.ReplaceAll(string(manifest), "fencer", namespace)), 0o600))
	for _, file := range []string{rights, "../../../fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml"} {
		require.NoError(f.t, cluster.Apply(f.t.Context(), file))
	}
	const method = "template=fence-method-template-rack\nplug={{.NodeName}}\nsettle=1s\naction="
	for name, data := range map[string]map[string]string{
		"fence-config-node-" + f.node.Name: {
			"config.properties":    fenceSettings,
			"fence-method-plug-on": method + "on\n", "fence-method-plug-off": method + "off\n",
		},
		"fence-method-template-rack": {"template.properties": "agent_name=fence_rack\nip=rack\n"},
	} {
		_, err := cluster.Client.CoreV1().ConfigMaps(namespace).Create(f.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		require.NoError(f.t, err)
	}
	for _, node := range nodes { // if all that it knows were lost, it would blame the network
		_, err = cluster.Client.CoreV1().Nodes().Patch(f.t.Context(), node, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"metadata": {"labels": {%q: "true"}}}`, namespace), metav1.PatchOptions{})
		require.NoError(f.t, err)
	}

	var off atomic.Value
	rack = fencingtest.NewRack(func(_ string, on bool) {
		if on {
			assert.NoError(f.t, f.node.On())
		} else {
			assert.NoError(f.t, f.node.Off())
			off.Store(seconds())
		}
	}, f.node.Name)
	server := httptest.NewServer(remoteagent.Handler(rack))
	f.t.Cleanup(func() {
		server.Close()
		rack.Close()
	})
	host := nodes[(slices.Index(nodes, f.node.Name)+1)%len(nodes)]
	program, err := cluster.Program(f.t.Context(), "../fencing/replica")
	require.NoError(f.t, err)
	kubeconfig, err := cluster.Kubeconfig(cluster.User("system:serviceaccount:" + namespace + ":" + namespace))
	require.NoError(f.t, err)
	_, err = cluster.Run(e2e.Command{Name: namespace, Path: program, Args: []string{
		"-kubeconfig", kubeconfig, "-namespace", namespace, "-identity", namespace, "-host", host,
		"-machine", f.node.Name, "-label", namespace, "-rack", server.URL,
	}})
	require.NoError(f.t, err)
	require.Eventually(f.t, func() bool { // the devices have been checked
		node, err := cluster.Client.CoreV1().Nodes().Get(f.t.Context(), f.node.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "FenceReady" {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}, patience, poll)
	return rack, func() float64 { return off.Load().(float64) }
}

// A machine hangs, and is fenced: its power is cut, its Pods and its volumes are elsewhere, its power
// comes back.
func TestHungNodeIsFenced(t *testing.T) {
	cluster.Need(t)
	f := deployFleet(t, "statefulset.yaml")
	disk := f.deployVolume()
	rack, cut := f.guard()
	require.NoError(t, f.node.Freeze())
	for _, a := range f.life {
		a.isSucceeded()
	}
	f.elsewhere()
	require.Eventually(t, func() bool { return rack.On(f.node.Name) }, patience, poll)
	f.ready()
	require.Eventually(t, func() bool {
		node, err := cluster.Client.CoreV1().Nodes().Get(t.Context(), f.node.Name, metav1.GetOptions{})
		return err == nil && !node.Spec.Unschedulable
	}, patience, poll)
	assert.Greater(t, disk.awaitMoved(), cut(), "the volume is free before the power has been cut")
	for _, a := range f.life {
		assert.Greater(t, a.history.reigns()[1].begun, cut(), "another Pod leads before the power has been cut")
	}
	f.judge("hung, fenced")
}
