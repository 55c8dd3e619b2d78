package nodeconfig_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

var cloudNode = nodeconfig.Node{Name: "w1", ProviderID: "aws:///eu-central-1a/i-0abc", Type: "cloud"}

func TestNodeWithoutConfigurationIsRestartedInItsCloud(t *testing.T) {
	objects := load(t, "built-in.yaml", "w1")
	written := plan(t, namespace(objects), cloudNode)
	delete(objects, "fence-config-type-cloud")
	builtIn := plan(t, namespace(objects), cloudNode)

	assert.Equal(t, nodeplan.BuiltIn, builtIn.Object)
	assert.Equal(t, []string{"mark-unschedulable"}, names(builtIn.Isolation))
	assert.Equal(t, []string{"restart-instance off fence_aws//i-0abc", "restart-instance on fence_aws//i-0abc"},
		names(builtIn.PowerManagement[0]))
	assert.Equal(t, []string{"mark-schedulable"}, names(builtIn.Recovery))
	assert.Len(t, builtIn.Isolation, 1)
	assert.Len(t, builtIn.PowerManagement, 1)
	assert.Equal(t,
		map[string]string{
			"plug": "i-0abc", "region": "eu-central-1", "access_key": "AKIA0EXAMPLE",
			"secret_key": "hunter4",
		},
		arguments(t, builtIn.Devices()[0]))
	assert.Empty(t, builtIn.Warnings)

	assert.Equal(t, nodeplan.Always, builtIn.PowerOn)
	assert.Equal(t, 30*time.Second, builtIn.NotReadyFor)
	assert.Equal(t, 5*time.Minute, builtIn.PowerWait)
	assert.Equal(t, 10*time.Minute, builtIn.BootGrace)
	assert.Equal(t, 5*time.Minute, builtIn.KdumpTimeout)
	assert.Equal(t, []int32{3, 1}, []int32{builtIn.Retries, builtIn.Restarts})
	assert.False(t, builtIn.Kdump)
	assert.Equal(t, 30*time.Second, builtIn.Devices()[0].Settle)

	assert.Equal(t, "fence-config-type-cloud", written.Object)
	written.Object, written.Hash, builtIn.Hash = builtIn.Object, "", ""
	assert.Equal(t, builtIn, written)
}

func TestFallbackLevels(t *testing.T) {
	p := plan(t, namespace(load(t, "bmc-then-pdus.yaml", "w1")), nodeconfig.Node{Name: "w1"})
	assert.Equal(t, [][]string{
		{"bmc-off off fence_ipmilan/bmc-w1.example/", "bmc-on on fence_ipmilan/bmc-w1.example/"},
		{
			"pdu-a-off off fence_apc_snmp/pdu-a.example/5", "pdu-b-off off fence_eaton_snmp/pdu-b.example/6",
			"pdu-a-on on fence_apc_snmp/pdu-a.example/5", "pdu-b-on on fence_eaton_snmp/pdu-b.example/6",
		},
	}, [][]string{names(p.PowerManagement[0]), names(p.PowerManagement[1])})
	assert.Len(t, p.PowerManagement[1].Off(), 2)
	assert.Len(t, p.PowerManagement[1].On(), 2)
	assert.Len(t, p.Devices(), 3)
	assert.Equal(t, map[string]string{
		"ip": "bmc-w1.example", "username": "fencer", "password": "hunter2", "lanplus": "1", "cipher": "3",
		"power_wait": "0",
	}, arguments(t, p.Devices()[0]))
	assert.Equal(t, 40*time.Second, p.Devices()[0].Settle, "what the agent needs at least")
	assert.Empty(t, p.Warnings)
}

// The names and texts of the proposal, in its own names of objects.
func TestProposalsConfigurationForMachines(t *testing.T) {
	p := plan(t, namespace(load(t, "switch-and-pdu.yaml", "w1")), nodeconfig.Node{Name: "w1", Type: "compute"})
	assert.Equal(t, "fence-config-w1", p.Object)
	assert.Equal(t, []string{"fc-off off fence_brocade/switch.example/2"}, names(p.Isolation))
	assert.Equal(t, []string{"eaton-off off fence_eaton_snmp/pdu.example/1", "eaton-on on " +
		"fence_eaton_snmp/pdu.example/1"}, names(p.PowerManagement[0]))
	assert.Equal(t, []string{"fc-on on fence_brocade/switch.example/2"}, names(p.Recovery))
	assert.Equal(t, map[string]string{"ip": "switch.example", "username": "fencer", "password": "hunter3", "plug": "2"},
		arguments(t, p.Isolation[0].Device))
}

func TestProposalsConfigurationForClouds(t *testing.T) {
	objects := load(t, "built-in.yaml", "w1")
	for name, data := range load(t, "proposal-cloud.yaml", "w1") {
		objects[name] = data
	}
	p := plan(t, namespace(objects), nodeconfig.Node{Name: "w1", ProviderID: "aws:///eu-central-1a/i-0abc"})
	assert.Equal(t, []string{"mark-unschedulable"}, names(p.Recovery), "what is written is done")
	require.Len(t, p.Warnings, 1)
	assert.Equal(t, `fence-config-w1/config.properties:4: node stays unschedulable after it has recovered; did you `+
		`mean mark-schedulable? (got "mark-unschedulable")`,
		p.Warnings[0].Error())
}

// What users copy is right, in every detail that can be checked.
func TestConfigurationOfTheExample(t *testing.T) {
	n := namespace(load(t, "../../../../examples/fencer/configuration.yaml", ""))
	n.StrictSecrets = true
	n.SecretKeys = func(name string) ([]string, error) {
		require.Equal(t, "power", name)
		return []string{"bmc", "pdu"}, nil
	}
	nodes := []nodeconfig.Node{{Name: "metal-1", Type: "metal"}, {Name: "metal-9", Type: "metal"}}
	resolved := nodeconfig.Resolve(n, nodes)
	require.NoError(t, resolved.Validate())
	for node, levels := range map[string]int{"metal-1": 1, "metal-9": 2} {
		p, err := resolved.Plan(node)
		require.NoError(t, err)
		assert.Empty(t, p.Warnings)
		assert.Len(t, p.PowerManagement, levels)
	}
}
