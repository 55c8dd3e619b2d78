package fenceagents_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	_, err := fenceagents.New(fenceagents.Config{
		Directory: "agents", Path: "/bin:bin", Timeout: -time.Second,
		Environment: []string{"hunter2", "PATH=/", "=x", "BELLWETHER_FENCE_CALL=1", "GOOD=1"},
	})
	require.Error(t, err)
	for _, want := range []string{
		"Directory: must be absolute (got agents)", "Path: must consist of absolute directories (got /bin:bin)",
		"Timeout: must not be negative (got -1s)", "must not set what is set here (got PATH)",
		"(got BELLWETHER_FENCE_CALL)",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), "GOOD")
	assert.Len(t, strings.Split(err.Error(), "\n"), 7)
}

func TestReadsOnlyWhatOutputAndExitCodeSayAlike(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	for name, test := range map[string]struct {
		says, code, does string
		want             agent.Power
		err              string
	}{
		"on":                          {says: "Status: ON", want: agent.PowerOn},
		"off":                         {says: "Status: OFF|", code: "2", want: agent.PowerOff},
		"with other lines":            {says: "hello||status: off|bye", code: "2", want: agent.PowerOff},
		"exit code of an interpreter": {code: "2", err: "exit code 2 does not go with the output, in which 0 lines"},
		"exit code of a printed text": {
			says: "4.12.1",
			err:  "exit code 0 does not go with the output, in which 0 lines",
		},
		"says on, ends off": {
			says: "Status: ON", code: "2",
			err: "exit code 2 does not go with the output, in which 1 lines",
		},
		"says off, ends on": {
			says: "Status: OFF",
			err:  "exit code 0 does not go with the output, in which 1 lines",
		},
		"two plugs":                      {says: "Status: OFF|Status: ON", code: "2", err: "in which 2 lines"},
		"neither":                        {says: "Status: UNKNOWN", code: "2", err: "exit code 2"},
		"failed":                         {says: "Status: OFF", code: "1", err: "exit code 1"},
		"off, after too much to look at": {says: "|Status: OFF", code: "2", does: "floods and says", err: "more than"},
		"ended by a signal":              {says: "Status: OFF", code: "2", does: "is killed", err: "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parameters := map[string]string{"plug": "1", "says": test.says}
			if test.code != "" {
				parameters["code"] = test.code
			}
			if test.does != "" {
				parameters["does"] = test.does
			}
			got, err := agents.Power(t.Context(), target(parameters))
			if test.err != "" {
				assert.ErrorContains(t, err, test.err)
				assert.ErrorContains(t, err, "status of fence_fake/192.0.2.1/1 for node worker-1")
				assert.Equal(t, agent.PowerUnknown, got)
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestSwitchFailsWithTheAgent(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	assert.NoError(t,
		agents.Switch(t.Context(), target(map[string]string{"plug": "1"}), agent.Command{Action: agent.ActionOn}))
	assert.Equal(t, "action=on\nplug=1\n", f.calls()[0].Input)
	err := agents.Switch(t.Context(), target(map[string]string{"plug": "1", "code": "1", "complains": "no such plug"}),
		off)
	assert.ErrorContains(t, err, "fenceagents: off of fence_fake/192.0.2.1/1 for node worker-1: exit code 1: …",
		"any text of a parameter might be a secret")
	err = agents.Switch(t.Context(), target(map[string]string{"plug": "1", "does": "is killed"}), off)
	assert.ErrorContains(t, err, "ended by a signal: killed")
	err = agents.Switch(t.Context(), target(map[string]string{"plug": "1"}), agent.Command{Action: "reboot"})
	assert.EqualError(t, err, `fenceagents: Command.Action: must be off or on (got "reboot")`)
	assert.Len(t, f.calls(), 3)
}

func TestAgentsOutsideOfTheDirectoryAreNotRun(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	require.NoError(t, os.Mkdir(filepath.Join(f.directory, "sub"), 0o700))
	agents := f.agents()
	for name, want := range map[string]string{
		"": "must be fence_", "fence_": "must be fence_", "../fence_fake": "must be fence_",
		"fence_/../sh": "must be fence_", "sh": "must be fence_",
		"fence_fake ": "must be fence_", "fence_fake\n": "must be fence_", "fence_none": "no agent fence_none",
	} {
		wrong := target(map[string]string{"plug": "1"})
		wrong.Agent = name
		_, err := agents.Power(t.Context(), wrong)
		assert.ErrorContains(t, err, want, name)
		assert.ErrorContains(t, agents.Switch(t.Context(), wrong, off), want, name)
		assert.ErrorContains(t, agents.Check(t.Context(), wrong), want, name)
		_, err = agents.Metadata(t.Context(), name)
		assert.ErrorContains(t, err, want, name)
	}
	assert.Empty(t, f.calls())
}

func TestNothingIsStartedWithoutTime(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := agents.Switch(ctx, target(map[string]string{"plug": "1"}), off)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, "not started")
	assert.Empty(t, f.calls())
}

func TestPreparedReading(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	says := map[string]string{"plug": "1", "says": "Status: OFF|", "code": "2"}

	power := agents.Prepare(t.Context(), target(says))
	assert.Empty(t, f.calls())
	read, err := power(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOff, read)
	assert.Len(t, f.calls(), 1)

	ctx, cancel := context.WithCancel(t.Context())
	power = agents.Prepare(ctx, target(says))
	cancel()
	_, err = power(t.Context())
	assert.ErrorIs(t, err, context.Canceled)

	_, err = agents.Prepare(t.Context(), target(map[string]string{"port": "1", "plug": "2"}))(t.Context())
	assert.ErrorContains(t, err, "plug")
	wrong := target(says)
	wrong.Agent = "../fence_fake"
	_, err = agents.Prepare(t.Context(), wrong)(t.Context())
	assert.ErrorContains(t, err, "an agent's name must be")
	assert.Len(t, f.calls(), 1, "not without parameters")
}

func TestCommandIsNotSentLate(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	slow := filepath.Join(f.directory, "slow")
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	agents, err := fenceagents.New(configFor(f.directory))
	require.NoError(t, err)
	err = agents.Switch(t.Context(), target(map[string]string{"plug": "1"}), off)
	assert.ErrorContains(t, err, "not sent, for it would be late: the agent's metadata took")
	assert.Empty(t, f.calls())
	assert.NoError(t, agents.Switch(t.Context(), target(map[string]string{"plug": "1"}), off), "by now it is known")
	assert.Len(t, f.calls(), 1)
}

func TestNamesAreOfProgramsOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	require.NoError(t, os.Mkdir(filepath.Join(f.directory, "fence_directory"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.directory, "fence_text"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(f.directory, "other"), nil, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.directory, "fence_another"), nil, 0o700))
	names, err := f.agents().Names()
	require.NoError(t, err)
	assert.Equal(t, []string{"fence_another", "fence_fake"}, names)
	_, err = fake{t, "/nonexistent"}.agents().Names()
	assert.ErrorIs(t, err, os.ErrNotExist)
}
