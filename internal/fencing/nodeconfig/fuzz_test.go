package nodeconfig_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// FuzzResolve: whatever the texts and the node, there is an error or a plan that can be carried
// out.
func FuzzResolve(f *testing.F) {
	const text = "node_name=[NODE_NAME]\nisolation=mark-unschedulable " +
		"x\npower_management=restart-instance\npower_management.2=a-off b a-on\nrecovery=y"
	f.Add(text, "template=fence-method-template-t\naction=off\nplug=1",
		"agent=fence_ipmilan\naction=cycle\nip=b-{{.InstanceID}}",
		"agent_name=fence_apc_snmp\nip=p\npassword.secret=bmc/password", "w1", "aws:///a/i-1")
	f.Add("power_on=never\nnode_name=w1\nisolation=b\npower_management=a-off delete-node\nrecovery=",
		"template=fence-method-template-cloud\naction=reboot\nplug=1\nip=\"\"",
		"agent=fence_dummy\naction=off\ntype={{.NodeName}}", "agent_name=fence_aws", "w1", "")
	f.Fuzz(func(t *testing.T, settings, a, b, template, name, providerID string) {
		for _, object := range []string{"fence-config-node-" + name, "fence-config-" + name, "fence-config-type-t"} {
			n := namespace(map[string]map[string]string{
				object: {
					"config.properties": settings, "fence-method-a-off": a,
					"fence-method-a-on": strings.Replace(a, "action=off", "action=on", 1), "fence-method-b": b,
				},
				"fence-method-template-t":     {"template.properties": template},
				"fence-method-template-cloud": {"template.properties": template},
			})
			resolution := nodeconfig.Resolve(n, []nodeconfig.Node{{Name: name, ProviderID: providerID, Type: "t"}})
			p, err := resolution.Plan(name)
			if err != nil {
				require.NotEmpty(t, parts(err))
				for _, problem := range parts(err) {
					require.NotContains(t, problem.Error(), "\n")
				}
				continue
			}
			require.NoError(t, resolution.Validate())
			require.Equal(t, object, p.Object)
			check(t, p, name+providerID)
		}
	})
}

// check finds out whether a plan can be carried out.
func check(t *testing.T, p nodeplan.Plan, facts string) {
	t.Helper()
	require.Len(t, p.Hash, 64)
	for _, level := range p.PowerManagement {
		off := map[string]bool{}
		for _, m := range level.Off() {
			require.False(t, off[m.Device.Key], "a plug twice")
			require.True(t, m.MustSucceed)
			off[m.Device.Key] = true
		}
		require.NotEmpty(t, off)
		on := map[string]bool{}
		for _, m := range level.On() {
			on[m.Device.Key] = true
		}
		if p.PowerOn == nodeplan.Never {
			require.Empty(t, on)
		} else {
			require.Equal(t, off, on)
		}
		seenOn := false
		for _, m := range level {
			seenOn = seenOn || m.Action == agent.ActionOn
			require.False(t, seenOn && m.Action == agent.ActionOff)
		}
	}
	require.Empty(t, p.Isolation.On())
	require.Empty(t, p.Recovery.Off())
	for _, d := range p.Devices() {
		require.True(t, strings.HasPrefix(d.Key, d.Agent+"/"))
		require.GreaterOrEqual(t, d.Settle, agents[d.Agent].MinSettle)
		target, err := nodeconfig.Target(d, p.Node, secretValue)
		require.NoError(t, err)
		var text strings.Builder
		want := map[string]string{}
		for _, name := range target.Parameters.Names() {
			value, _ := target.Parameters.Get(name)
			require.NotEqual(t, "action", name)
			if !strings.Contains(facts, "{{") {
				require.NotContains(t, value, "{{")
			}
			line, err := nodeconfig.Format(name, value)
			require.NoError(t, err)
			text.WriteString(line)
			want[name] = value
		}
		require.Equal(t, want, readAsAgent(text.String()))
	}
}
