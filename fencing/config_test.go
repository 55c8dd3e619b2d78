package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
)

func TestBadConfigIsNamedFieldByField(t *testing.T) {
	kube, dyn := kubefake.NewSimpleClientset(), fake.NewSimpleDynamicClient(runtime.NewScheme())
	good := func() fencing.Config {
		return fencing.Config{Namespace: "fencing", Node: "n1", Leadership: &reign{}, Agents: agents{}}
	}
	_, err := fencing.New(kube, dyn, good())
	require.NoError(t, err)
	for _, c := range []struct {
		change func(*fencing.Config)
		says   string
	}{
		{
			func(c *fencing.Config) { c.Namespace = "" },
			`fencing: Namespace: must be set: in a Pod, take it from the environment variable POD_NAMESPACE`,
		},
		{func(c *fencing.Config) {
			c.Node = ""
		}, `fencing: Node: must be the name of the node that this process runs on, unless OutsideCluster is set (got ` +
			`"")`},
		{
			func(c *fencing.Config) { c.OutsideCluster = true },
			`fencing: Node: must be empty with OutsideCluster (got "n1")`,
		},
		{func(c *fencing.Config) { c.Leadership = nil }, `fencing: Leadership: required (got <nil>)`},
		{func(c *fencing.Config) { c.Agents = nil }, `fencing: Agents: required (got <nil>)`},
		{
			func(c *fencing.Config) { c.Limits.StormPercent = 101 },
			`fencing: Limits.StormPercent: must be from 1 to 100 (got 101)`,
		},
		{
			func(c *fencing.Config) { c.Limits = api.Limits{RequireStorage: true} },
			`fencing: StorageReachable: required with Limits.RequireStorage (got <nil>)`,
		},
		{
			func(c *fencing.Config) { c.CheckInterval = time.Millisecond },
			`fencing: CheckInterval: must be at least 1s (got 1ms)`,
		},
		{
			func(c *fencing.Config) { c.CommandTimeout = 1500 * time.Millisecond },
			`fencing: CommandTimeout: must be whole seconds (got 1.5s)`,
		},
		{func(c *fencing.Config) { c.ChecksAtOnce = -1 }, `fencing: ChecksAtOnce: must be from 1 to 64 (got -1)`},
		{func(c *fencing.Config) { c.ChecksAtOnce = 65 }, `fencing: ChecksAtOnce: must be from 1 to 64 (got 65)`},
		{func(c *fencing.Config) { c.TypeLabel = "a b" }, `fencing: TypeLabel: must be the key of a label (got "a b")`},
		{func(c *fencing.Config) { c.History = -1 }, `fencing: History: must be at least 0s (got -1ns)`},
		{func(c *fencing.Config) {
			c.Nodes.Triggers = []api.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, `fencing: Nodes.Triggers[0]: must be another condition`},
	} {
		bad := good()
		c.change(&bad)
		_, err := fencing.New(kube, dyn, bad)
		assert.ErrorContains(t, err, c.says)
	}
	_, err = fencing.New(nil, nil, fencing.Config{})
	for _, field := range []string{"clients", "Namespace", "Node", "Leadership", "Agents"} {
		assert.ErrorContains(t, err, "fencing: "+field+": ")
	}
}
