package lab_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// What follows is what agents say although it is not so. It is the reason for these rules: a fence
// never sends a reboot and believes no exit code. It takes an off for proof only if it has read the
// same plug as on before. Some parameters are not sent or not allowed.

func TestCycleSucceedsOnABMCThatIgnoresIt(t *testing.T) {
	t.Parallel()
	b := kinds["ipmilan"](t)
	b.plug.Break(lab.Fault{Ignores: true})
	code, output := raw(t, "fence_ipmilan", b.target(nil).Parameters, "action=reboot", "method=cycle")
	assert.Zero(t, code, output)
	assert.Contains(t, output, "Success: Rebooted")
	assert.True(t, b.on())
	assert.Equal(t, agent.PowerOn, b.read(t))
}

func TestRebootSucceedsThoughTheMachineStaysOff(t *testing.T) {
	t.Parallel()
	machine := lab.NewMachine(nil)
	feed := machine.Feed()
	device, err := labtest.New(t).APC(feed)
	require.NoError(t, err)
	feed.Press(false)
	feed.Break(lab.Fault{Ignores: true})
	code, output := raw(t, device.Agent,
		device.Target("worker-1", "1", map[string]string{"power_timeout": "2"}).Parameters, "action=reboot")
	assert.Zero(t, code, output)
	assert.Contains(t, output, "Success: Rebooted")
	assert.False(t, machine.On())
}

// The most dangerous one: not only does the command succeed, the reading agrees with it.
func TestPlugThatIsNotThereIsOffBySNMP2c(t *testing.T) {
	t.Parallel()
	b := kinds["apc_snmp"](t)
	b.name = "9"
	target := b.target(map[string]string{"snmp_version": "2c"})
	assert.ErrorIs(t, b.agents.Switch(t.Context(), target, command(agent.ActionOff)), agent.ErrAlready)
	power, err := b.agents.Power(t.Context(), target)
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOff, power)
	assert.True(t, b.on())
}

func TestOnlyTheFirstPlugOfAListIsSwitchedAndRead(t *testing.T) {
	t.Parallel()
	machine := lab.NewMachine(nil)
	first, second := machine.Feed(), machine.Feed()
	device, err := labtest.New(t).APC(first, second)
	require.NoError(t, err)
	both := device.Target("worker-1", "1,2", nil)
	code, output := raw(t, device.Agent, both.Parameters, "action=off")
	assert.Zero(t, code, output)
	code, output = raw(t, device.Agent, both.Parameters, "action=status")
	assert.Equal(t, 2, code, output)
	assert.False(t, first.On())
	assert.True(t, second.On())
	assert.True(t, machine.On())

	_, err = newAgents(t, "").Power(t.Context(), both)
	assert.ErrorContains(t, err, "parameter plug must be one plug")
}

func TestAgentThatVerifiesCertificatesCannotBeSetNotTo(t *testing.T) {
	t.Parallel()
	machine := lab.NewMachine(nil)
	device, err := labtest.New(t).Redfish(machine.Chassis()) // its certificate is not trusted
	require.NoError(t, err)
	target := device.Target("worker-1", "", map[string]string{"ssl_insecure": "0"})
	code, output := raw(t, device.Agent, target.Parameters, "action=status")
	assert.Zero(t, code, output)
	_, err = newAgents(t, "").Power(t.Context(), target)
	assert.ErrorContains(t, err, "certificate verify failed")
	power, err := newAgents(t, "").Power(t.Context(),
		device.Target("worker-1", "", map[string]string{"ssl_insecure": "1"}))
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOn, power)
}

func TestVersionInsteadOfAStatus(t *testing.T) {
	t.Parallel()
	b := kinds["ipmilan"](t)
	require.NoError(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff)))
	target := b.target(map[string]string{"version": "0"})
	code, output := raw(t, b.device.Agent, target.Parameters, "action=status")
	assert.Zero(t, code, "which means on: %s", output)
	assert.False(t, b.on())
	power, err := b.agents.Power(t.Context(), target)
	assert.ErrorContains(t, err, "parameter version must not be set")
	assert.Equal(t, agent.PowerUnknown, power)
}

func TestAgentWithoutAnActionReboots(t *testing.T) {
	t.Parallel()
	machine := lab.NewMachine(nil)
	device, err := labtest.New(t).BMC(machine.Chassis())
	require.NoError(t, err)
	code, output := raw(t, device.Agent, device.Target("worker-1", "", nil).Parameters)
	assert.Zero(t, code, output)
	assert.Len(t, machine.Changes(), 2)
}

func TestUnknownParametersAreOnlyWarnedAbout(t *testing.T) {
	t.Parallel()
	b := kinds["apc_snmp"](t)
	target := b.target(map[string]string{"snmp_verison": "2c"})
	code, output := raw(t, b.device.Agent, target.Parameters, "action=status")
	assert.Zero(t, code)
	assert.Contains(t, output, "Ignoring unknown option")
	_, err := b.agents.Power(t.Context(), target)
	assert.ErrorContains(t, err, "parameter snmp_verison is not one of fence_apc_snmp")
}

// An agent for Redfish sends the password on as it understands it.
func TestValuesReachTheAgentAsTheyAre(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got [2]string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		username, password, _ := r.BasicAuth()
		got = [2]string{fromLatin1(username), fromLatin1(password)}
		_, _ = io.WriteString(w, `{"PowerState": "Off"}`)
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	agents := newAgents(t, "")
	for _, values := range [][2]string{
		{`"x"`, ` x `},
		{`"`, `""`},
		{"ä\u00a0x ", "a=b#c"},
		{"#c", "'x'"},
		{`\`, `\1`},
		{"$(id)", "{{.NodeName}}"},
	} {
		power, err := agents.Power(t.Context(),
			agent.Target{Agent: "fence_redfish", Parameters: agent.NewParameters(map[string]string{
				"ip": host, "ipport": port, "ssl_insecure": "1", "systems_uri": "/", "username": values[0],
				"password": values[1],
			})})
		assert.NoError(t, err)
		assert.Equal(t, agent.PowerOff, power)
		mu.Lock()
		assert.Equal(t, values, got)
		mu.Unlock()
	}
}

// fromLatin1 is what the agent's library made bytes of.
func fromLatin1(s string) string {
	runes := make([]rune, 0, len(s))
	for _, b := range []byte(s) {
		runes = append(runes, rune(b))
	}
	return string(runes)
}

// Its programs go on later. It is not off, and nothing has been sent.
func TestSuspendedMachineReadsOff(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	for kind, build := range map[string]func(t *testing.T) bench{
		"vmware_rest": kinds["vmware_rest"],
		"virsh": func(t *testing.T) bench {
			machine := lab.NewPlug(nil)
			device, err := labtest.New(t).Virsh(machine)
			require.NoError(t, err)
			return bench{newAgentsIn(t, device.Directory, device.Agent), device, machine, "vm", machine.On}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			assert.Equal(t, agent.PowerOn, b.read(t))
			b.plug.Suspend()
			assert.Equal(t, agent.PowerOff, b.read(t))
			assert.ErrorIs(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff)), agent.ErrAlready)
			assert.Empty(t, b.plug.Commands())
			metadata, err := b.agents.Metadata(t.Context(), b.device.Agent)
			require.NoError(t, err)
			assert.False(t, metadata.OffIsProof)

			b.plug.Resume()
			assert.NoError(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff)))
			assert.False(t, b.on())
		})
	}
}
