package lab_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// impatient agents look for some seconds whether a command shows effect: for long enough to send it
// on a busy machine.
var impatient = map[string]string{"power_timeout": "5"}

func TestDeviceAcknowledgesAndIgnores(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.plug.Break(lab.Fault{Ignores: true})
		assert.Error(t, b.agents.Switch(t.Context(), b.target(impatient), command(agent.ActionOff)),
			"these agents look themselves")
		assert.Equal(t, agent.PowerOn, b.read(t))
		assert.True(t, b.on())
		assert.NotEmpty(t, b.plug.Commands())
	})
}

// The agent gives up, and then the machine goes off: the command must not have been sent again
// meanwhile, nor have taken the reading for the last word.
func TestCommandLandsAfterTheAgentHasEnded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.plug.Break(lab.Fault{Holds: true})
		assert.Error(t, b.agents.Switch(t.Context(), b.target(impatient), command(agent.ActionOff)))
		assert.Equal(t, agent.PowerOn, b.read(t))
		b.plug.Land()
		assert.False(t, b.on())
		assert.Equal(t, agent.PowerOff, b.read(t))
	})
}

func TestCommandLandsAlthoughTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.plug.Break(lab.Fault{Holds: true})
		ctx, cancel := context.WithCancel(t.Context())
		var canceling sync.WaitGroup
		defer canceling.Wait()
		canceling.Go(func() {
			assert.Eventually(t, func() bool { return len(b.plug.Commands()) > 0 }, patience, time.Millisecond)
			cancel()
		})
		err := b.agents.Switch(ctx, b.target(nil), command(agent.ActionOff))
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, agent.PowerOn, b.read(t))
		b.plug.Land()
		assert.Equal(t, agent.PowerOff, b.read(t))
		assert.Len(t, b.plug.Commands(), 1)
	})
}

func TestSlowDeviceIsWaitedFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		b.plug.Break(lab.Fault{Slow: 300 * time.Millisecond})
		assert.Equal(t, agent.PowerOn, b.read(t))
		// it may have tried for too short a time
		_ = b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff))
		assert.Eventually(t, func() bool { return b.read(t) == agent.PowerOff }, patience, poll)
		assert.False(t, b.on())
	})
}

func TestDeadDevice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		require.NoError(t, b.device.Freeze())
		t.Cleanup(func() { assert.NoError(t, b.device.Thaw()) })
		err := b.agents.Switch(t.Context(), b.target(nil),
			agent.Command{Action: agent.ActionOff, Timeout: 2 * time.Second})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, processesFor(t, b.device.Parameters["ipport"]), "nothing that the agent has started runs on")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		power, err := b.agents.Power(ctx, b.target(nil))
		assert.Error(t, err)
		assert.Equal(t, agent.PowerUnknown, power)

		require.NoError(t, b.device.Thaw())
		assert.Equal(t, agent.PowerOn, b.read(t))
		assert.True(t, b.on())
		assert.Empty(t, b.plug.Commands())
	})
}

// processesFor returns the command lines that contain a port, and not only within a longer number:
// names of temporary directories are such.
func processesFor(t *testing.T, port string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	whole := regexp.MustCompile(`(^|\D)` + port + `(\D|$)`)
	var found []string
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && whole.Match(line) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b bench) {
		wrong := map[string]string{}
		for _, name := range []string{"password", "community"} {
			if _, found := b.device.Parameters[name]; found {
				wrong[name] = "a-wrong-secret"
			}
		}
		require.Len(t, wrong, 1)
		if _, snmp := wrong["community"]; snmp {
			b.agents = newAgents(t, b.device.Agent) // who waits for no answer need not wait long
		}
		for _, quick := range []string{"login_timeout", "shell_timeout"} {
			wrong[quick] = "1"
		}
		power, err := b.agents.Power(t.Context(), b.target(wrong))
		assert.Error(t, err)
		assert.Equal(t, agent.PowerUnknown, power)
		assert.NotContains(t, fmt.Sprint(err), "a-wrong-secret")
		err = b.agents.Switch(t.Context(), b.target(wrong), command(agent.ActionOff))
		assert.Error(t, err)
		assert.NotContains(t, fmt.Sprint(err), "a-wrong-secret")
		assert.True(t, b.on())
		assert.Empty(t, b.plug.Commands())
	})
}

func TestWrongPlugIsNotReadAsOff(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	for _, kind := range []string{"apc_snmp", "eaton_snmp", "brocade"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := kinds[kind](t)
			b.name = "9"
			power, err := b.agents.Power(t.Context(), b.target(nil))
			assert.ErrorContains(t, err, "exit code 1")
			assert.Equal(t, agent.PowerUnknown, power)
			assert.Error(t, b.agents.Switch(t.Context(), b.target(nil), command(agent.ActionOff)))
			assert.True(t, b.on())
		})
	}
}

func TestMachineRunsOnHalfOfItsFeeds(t *testing.T) {
	t.Parallel()
	l, agents, machine := labtest.New(t), newAgents(t, "fence_apc_snmp", snmpSentOnce(t)), lab.NewMachine(nil)
	first, second := machine.Feed(), machine.Feed()
	a, err := l.APC(first)
	require.NoError(t, err)
	b, err := l.Eaton(second)
	require.NoError(t, err)
	_, err = agents.Metadata(t.Context(), b.Agent)
	require.NoError(t, err)
	targets := []agent.Target{a.Target("worker-1", "1", nil), b.Target("worker-1", "1", nil)}
	second.Break(lab.Fault{Ignores: true})
	assert.NoError(t, agents.Switch(t.Context(), targets[0], command(agent.ActionOff)))
	assert.Error(t, agents.Switch(t.Context(), b.Target("worker-1", "1", impatient), command(agent.ActionOff)))
	for i, want := range []agent.Power{agent.PowerOff, agent.PowerOn} {
		power, err := agents.Power(t.Context(), targets[i])
		assert.NoError(t, err)
		assert.Equal(t, want, power)
	}
	assert.True(t, machine.On())
	second.Break(lab.Fault{})
	assert.NoError(t, agents.Switch(t.Context(), targets[1], command(agent.ActionOff)))
	assert.False(t, machine.On())
	assert.Len(t, machine.Changes(), 1)
}
