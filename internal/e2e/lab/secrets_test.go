package lab_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// While an agent waits for a dead device, all that it has started can be looked at.
func TestSecretsAreNotInProcesses(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	programs := map[string][]string{
		"ipmilan":    {"fence_ipmilan", "ipmitool"},
		"redfish":    {"fence_redfish"},
		"apc_snmp":   {"fence_apc_snmp", "snmpwalk"},
		"eaton_snmp": {"fence_eaton_snmp", "snmpwalk"},
		"brocade":    {"fence_brocade", "telnet"},
		"apc":        {"fence_apc", "telnet"},

		"vmware_rest": {"fence_vmware_rest"},
	}
	// Agents give these the secret as an argument, which they blank as soon as they run. That is
	// beyond us.
	careless := []string{"ipmitool", "snmpwalk"}
	for kind, build := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := build(t)
			core, logs := observer.New(zap.DebugLevel)
			// another run of the tests looks at the same processes
			tag := fmt.Sprintf("LAB_TEST=%s-%d", kind, os.Getpid())
			agents, err := fenceagents.New(fenceagents.Config{Environment: []string{tag}, Logger: zap.New(core)})
			require.NoError(t, err)
			_, err = agents.Metadata(t.Context(), b.device.Agent)
			require.NoError(t, err)
			secret := fmt.Sprintf("s3cret-%d", os.Getpid()) // IPMI allows 20 characters
			parameters := map[string]string{"password": secret}
			if _, snmp := b.device.Parameters["community"]; snmp {
				parameters = map[string]string{"community": secret}
			}
			require.NoError(t, b.device.Freeze())
			t.Cleanup(func() { assert.NoError(t, b.device.Thaw()) })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- agents.Switch(ctx, b.target(parameters), command(agent.ActionOff)) }()
			seen := map[string]bool{}
			for deadline := time.Now().Add(patience); len(seen) < len(programs[kind]) && time.Now().Before(deadline); {
				look(tag, secret, seen)
			}
			for range 20 { // while they go on to where they wait for the device
				<-time.After(poll)
				look(tag, secret, seen)
			}
			cancel()
			err = <-ended
			assert.Equal(t, programs[kind], slices.Sorted(maps.Keys(seen)))
			for program, leaks := range seen {
				assert.False(t, leaks && !slices.Contains(careless, program), program)
			}
			assert.ErrorIs(t, err, context.Canceled)
			assert.NotContains(t, err.Error(), secret)
			assert.NotEmpty(t, logs.All())
			assert.NotContains(t, fmt.Sprint(logs.All()), secret)
			after := map[string]bool{}
			look(tag, secret, after)
			assert.Empty(t, after)
		})
	}
}

// look adds the programs of all processes with a variable in their environment to seen, and whether
// they have a secret among their arguments or in their environment. A process has no arguments
// while it starts a program, and once it has ended.
func look(variable, secret string, seen map[string]bool) {
	directories, _ := filepath.Glob("/proc/[0-9]*")
	for _, directory := range directories {
		environment, err := os.ReadFile(filepath.Join(directory, "environ"))
		line, lineErr := os.ReadFile(filepath.Join(directory, "cmdline"))
		if err != nil || lineErr != nil || len(line) == 0 || !bytes.Contains(environment, []byte(variable+"\x00")) {
			continue
		}
		program := "" // of a script: not that of its interpreter
		for _, argument := range bytes.Split(line, []byte{0}) {
			if name := filepath.Base(string(argument)); program == "" && len(argument) > 0 && argument[0] != '-' &&
				name != "python3" {
				program = name
			}
		}
		seen[program] = seen[program] || bytes.Contains(line, []byte(secret)) ||
			bytes.Contains(environment, []byte(secret))
	}
}
