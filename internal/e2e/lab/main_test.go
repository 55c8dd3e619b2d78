package lab_test

import (
	"context"
	"flag"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

const (
	patience = time.Minute
	poll     = 10 * time.Millisecond
)

func TestMain(m *testing.M) {
	lab.Main()
	if err := flag.Set("test.parallel", "8"); err != nil { // tests wait for devices more than they work
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// newAgents returns agents that have got to know one, if it has a name: a command is not sent if
// that takes long.
func newAgents(t *testing.T, name string, environment ...string) *fenceagents.Agents {
	t.Helper()
	return newAgentsIn(t, "", name, environment...)
}

// newAgentsIn returns those of a directory; empty: those that are installed.
func newAgentsIn(t *testing.T, directory, name string, environment ...string) *fenceagents.Agents {
	t.Helper()
	labtest.Need(t)
	agents, err := fenceagents.New(
		fenceagents.Config{Directory: directory, Environment: environment, Timeout: patience})
	require.NoError(t, err)
	if name != "" {
		_, err = agents.Metadata(t.Context(), name)
		require.NoError(t, err)
	}
	return agents
}

func command(action agent.Action) agent.Command {
	return agent.Command{Action: action, Timeout: patience}
}

// raw runs an agent as anybody else would: with lines on its standard input, and no look at what it
// does.
func raw(t *testing.T, name string, parameters agent.Parameters, lines ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	program := exec.CommandContext(ctx, "/usr/sbin/"+name)
	for _, parameter := range parameters.Names() {
		value, _ := parameters.Get(parameter)
		lines = append(lines, parameter+"="+value)
	}
	program.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	combined, err := program.CombinedOutput()
	require.NotNil(t, program.ProcessState, err)
	return program.ProcessState.ExitCode(), string(combined)
}
