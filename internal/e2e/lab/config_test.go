package lab_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// namespace has a template for one agent, and the agents that are really there.
func namespace(t *testing.T, agents *fenceagents.Agents, maps map[string]map[string]string) nodeconfig.Namespace {
	t.Helper()
	return nodeconfig.Namespace{
		ConfigMaps: maps,
		SecretKeys: func(string) ([]string, error) { return []string{"password"}, nil },
		Agent:      func(name string) (agent.Metadata, error) { return agents.Metadata(t.Context(), name) },
	}
}

func password(nodeplan.SecretRef) ([]byte, bool) { return []byte(lab.Password + "\n"), true }

func TestFromConfigurationToTheMachine(t *testing.T) {
	t.Parallel()
	agents, machine := newAgents(t, "fence_ipmilan"), lab.NewMachine(nil)
	device, err := labtest.New(t).BMC(machine.Chassis())
	require.NoError(t, err)
	template := "agent_name=fence_ipmilan\nusername=" + lab.Username +
		"\npassword.secret=bmc/password\nlanplus=yes\ncipher=3\n"
	plan, err := nodeconfig.Resolve(namespace(t, agents, map[string]map[string]string{
		"fence-config-node-worker-1": {
			"config.properties": "node_name=worker-1\nisolation=mark-unschedulable\npower_management=bmc-off " +
				"bmc-on\nrecovery=mark-schedulable\n",
			"fence-method-bmc-off": "template=fence-method-template-ipmi\nipaddr=127.0.0.1\naction=off\n",
			"fence-method-bmc-on":  "template=fence-method-template-ipmi\nipaddr=127.0.0.1\naction=on\n",
		},
		"fence-method-template-ipmi": {"template.properties": template + "ipport=" + device.Parameters["ipport"] +
			"\n"},
	}), []nodeconfig.Node{{Name: "worker-1"}}).Plan("worker-1")
	require.NoError(t, err)
	for _, method := range plan.PowerManagement[0] {
		target, err := nodeconfig.Target(method.Device, "worker-1", password)
		require.NoError(t, err)
		assert.NoError(t, agents.Check(t.Context(), target))
		assert.NoError(t, agents.Switch(t.Context(), target, command(method.Action)))
		power, err := agents.Power(t.Context(), target)
		assert.NoError(t, err)
		assert.Equal(t, string(method.Action), string(power))
		assert.Equal(t, method.Action == agent.ActionOn, machine.On())
	}
	assert.Len(t, machine.Changes(), 2)
}

// What cannot be switched here can be checked at least.
func TestConfigurationOfCloudsIsCheckedWithoutThem(t *testing.T) {
	t.Parallel()
	agents := newAgents(t, "")
	for name, template := range map[string]string{
		"fence_aws": "access_key=AKIA\nsecret_key.secret=cloud/password\nregion=eu-central-1",
		"fence_gce": "project=p\nzone=europe-west1-b",
		"fence_azure_arm": "username=u\npassword.secret=cloud/" +
			"password\ntenantid=t\nsubscriptionId=s\nresourceGroup=g",
		"fence_openstack": "username=u\npassword.secret=cloud/password\nproject_name=p\nauth-url=https://" +
			"keystone.example:5000/v3",
		"fence_vmware_rest": "ip=vcenter.example\nusername=u\npassword.secret=cloud/password\nssl=1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template = "agent_name=" + name + "\n" + template + "\n"
			resolve := func(template string) (nodeplan.Plan, error) {
				return nodeconfig.Resolve(namespace(t, agents, map[string]map[string]string{
					"fence-method-template-cloud": {"template.properties": template},
				}), []nodeconfig.Node{{Name: "worker-1", ProviderID: "cloud:///zone/i-0123"}}).Plan("worker-1")
			}
			plan, err := resolve(template)
			require.NoError(t, err)
			require.Len(t, plan.Devices(), 1)
			target, err := nodeconfig.Target(plan.Devices()[0], "worker-1", password)
			require.NoError(t, err)
			assert.NoError(t, agents.Check(t.Context(), target))
			plug, _ := target.Parameters.Get("plug")
			assert.Equal(t, "i-0123", plug)

			for _, wrong := range []string{"reigon=x", "password_script=/bin/sh", "verbose=1"} {
				_, err = resolve(template + wrong + "\n")
				assert.ErrorContains(t, err, strings.SplitN(wrong, "=", 2)[0])
			}
		})
	}
}
