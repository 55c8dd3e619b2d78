package lab_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// bench is a machine, and one device that can switch it.
type bench struct {
	agents *fenceagents.Agents
	device *lab.Device
	plug   *lab.Plug
	name   string // of the plug
	on     func() bool
}

func (b bench) target(parameters map[string]string) agent.Target {
	return b.device.Target("worker-1", b.name, parameters)
}

func (b bench) read(t *testing.T) agent.Power {
	t.Helper()
	power, err := b.agents.Power(t.Context(), b.target(nil))
	assert.NoError(t, err)
	return power
}

var kinds = map[string]func(t *testing.T) bench{
	"ipmilan": func(t *testing.T) bench {
		machine := lab.NewMachine(nil)
		device, err := labtest.New(t).BMC(machine.Chassis())
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent), device, machine.Chassis(), "", machine.On}
	},
	"redfish": func(t *testing.T) bench {
		machine := lab.NewMachine(nil)
		device, err := labtest.New(t).Redfish(machine.Chassis())
		require.NoError(t, err)
		return bench{
			newAgents(t, device.Agent, "REQUESTS_CA_BUNDLE="+device.Certificate), device, machine.Chassis(),
			"", machine.On,
		}
	},
	"apc_snmp": func(t *testing.T) bench {
		machine := lab.NewMachine(nil)
		feed := machine.Feed()
		device, err := labtest.New(t).APC(lab.NewPlug(nil), feed)
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent, snmpSentOnce(t)), device, feed, "2", machine.On}
	},
	"eaton_snmp": func(t *testing.T) bench {
		machine := lab.NewMachine(nil)
		feed := machine.Feed()
		device, err := labtest.New(t).Eaton(lab.NewPlug(nil), feed)
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent, snmpSentOnce(t)), device, feed, "2", machine.On}
	},
	"vmware_rest": func(t *testing.T) bench {
		machine := lab.NewPlug(nil)
		device, err := labtest.New(t).VCenter(map[string]*lab.Plug{"vm": machine, "other": lab.NewPlug(nil)})
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent), device, machine, "vm", machine.On}
	},
	"apc": func(t *testing.T) bench {
		machine := lab.NewMachine(nil)
		feed := machine.Feed()
		device, _, err := labtest.New(t).APCTelnet(lab.NewPlug(nil), feed)
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent), device, feed, "2", machine.On}
	},
	"brocade": func(t *testing.T) bench {
		port := lab.NewPlug(nil)
		device, err := labtest.New(t).Brocade(lab.NewPlug(nil), lab.NewPlug(nil), port)
		require.NoError(t, err)
		return bench{newAgents(t, device.Agent), device, port, "2", port.On}
	},
}

// snmpSentOnce keeps SNMP programs from repeating a request that a slow device has not answered:
// the test counts what reaches the device.
func snmpSentOnce(t *testing.T) (variable string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "snmp.conf"), []byte("timeout 30\nretries 0\n"), 0o600))
	return "SNMPCONFPATH=" + dir
}

// each runs a test with each kind of device.
func each(t *testing.T, test func(t *testing.T, b bench)) {
	t.Helper()
	labtest.Need(t)
	for kind, build := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, build(t))
		})
	}
}

func TestAgentsSwitchAndRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		assert.Equal(t, agent.PowerOn, b.read(t))
		assert.NoError(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff)))
		assert.False(t, b.on())
		assert.Equal(t, agent.PowerOff, b.read(t))
		assert.NoError(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOn)))
		assert.True(t, b.on())
		assert.Equal(t, agent.PowerOn, b.read(t))
		assert.Len(t, b.plug.Commands(), 2)
	})
}
