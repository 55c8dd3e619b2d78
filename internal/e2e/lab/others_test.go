package lab_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

func dummy(t *testing.T, parameters map[string]string) agent.Target {
	t.Helper()
	if _, found := parameters["status_file"]; !found {
		parameters["status_file"] = filepath.Join(t.TempDir(), "status")
		require.NoError(t, os.WriteFile(parameters["status_file"], []byte("on"), 0o600))
	}
	return agent.Target{
		Node: "worker-1", Device: "fence_dummy//", Agent: "fence_dummy",
		Parameters: agent.NewParameters(parameters),
	}
}

func TestDummy(t *testing.T) {
	t.Parallel()
	agents, target := newAgents(t, "fence_dummy"), dummy(t, map[string]string{})
	for _, action := range []agent.Action{agent.ActionOff, agent.ActionOn, agent.ActionOff} {
		assert.NoError(t, agents.Switch(t.Context(), target, command(action)))
		power, err := agents.Power(t.Context(), target)
		assert.NoError(t, err)
		assert.Equal(t, string(action), string(power))
	}
}

// Its device cannot be read, and it says off.
func TestDummyReadsOffFromNoDevice(t *testing.T) {
	t.Parallel()
	power, err := newAgents(t, "fence_dummy").Power(t.Context(),
		dummy(t, map[string]string{"status_file": "/nonexistent"}))
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOff, power)
}

func TestDummyThatFails(t *testing.T) {
	t.Parallel()
	err := newAgents(t, "fence_dummy").Switch(t.Context(),
		dummy(t, map[string]string{"type": "fail", "power_timeout": "1"}), command(agent.ActionOff))
	assert.ErrorIs(t, err, agent.ErrNoEffect)
	assert.ErrorContains(t, err, "Failed Timed out waiting to power OFF")
}

func TestDummyThatSleepsIsKilled(t *testing.T) {
	t.Parallel()
	agents, target := newAgents(t, "fence_dummy"), dummy(t, map[string]string{})
	file, _ := target.Parameters.Get("status_file")
	sleepy := dummy(t, map[string]string{"status_file": file, "random_sleep_range": "1000"}) // for 1 s at least
	err := agents.Switch(t.Context(), sleepy,
		agent.Command{Action: agent.ActionOff, Timeout: 500 * time.Millisecond})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	power, err := agents.Power(t.Context(), target)
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOn, power)
}

// Its off switches nothing: it waits for the message of a kernel that dumps its memory.
func TestKdump(t *testing.T) {
	t.Parallel()
	agents := newAgents(t, "fence_kdump")
	const sender = "/usr/libexec/fence-agents/fence_kdump_send"
	port := strconv.Itoa(unwantedPort(t))
	target := agent.Target{
		Node: "worker-1", Device: "fence_kdump//", Agent: "fence_kdump",
		Parameters: agent.NewParameters(map[string]string{
			"nodename": "127.0.0.1", "ipport": port, "family": "ipv4", "timeout": "60",
		}),
	}
	_, err := agents.Power(t.Context(), target)
	assert.ErrorContains(t, err, "fence_kdump has no action status")
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		sent <- exec.CommandContext(ctx, sender, "--ipport", port, "--family", "ipv4", "--interval", "1",
			"127.0.0.1").Run()
	}()
	assert.NoError(t, agents.Switch(t.Context(), target, command(agent.ActionOff)))
	cancel()
	assert.ErrorContains(t, <-sent, "killed", "it sends until it is ended")
}

// unwantedPort returns a UDP port that is free and stays free until it is bound. It is below the
// ports that labs try and below the kernel's ephemeral ports.
func unwantedPort(t *testing.T) int {
	t.Helper()
	for {
		port := 2_000 + rand.IntN(8_000)
		if socket, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", port)); err == nil {
			require.NoError(t, socket.Close())
			return port
		}
	}
}
