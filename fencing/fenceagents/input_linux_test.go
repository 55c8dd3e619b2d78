package fenceagents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
)

func TestParametersGoThroughStandardInput(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	require.NoError(t, f.agents().Switch(t.Context(), target(map[string]string{
		"ipaddr":        "bmc=1.example#x",
		"Port":          "5",
		"password":      " sp ace",
		"complains":     `"quoted"`,
		"username":      `"`,
		"resourcegroup": "Ünïcode",
		"says":          "",
		"ssl-insecure":  "Yes",
		"ssl":           "off",
	}), off))
	require.Len(t, f.calls(), 1)
	given := f.calls()[0]
	lines := strings.Split(strings.TrimSuffix(given.Input, "\n"), "\n")
	assert.Equal(t, "action=off", lines[0])
	assert.ElementsMatch(t, []string{
		"ip=bmc=1.example#x", "plug=5", `password=" sp ace"`, `complains=""quoted""`, `username="""`,
		"resourceGroup=Ünïcode", `says=""`, "ssl_insecure=1", "ssl=0",
	}, lines[1:])
	assert.Empty(t, given.Arguments)
}

// For many agents a parameter that is there is true, whatever its value.
func TestWhatIsFalseAnywayIsNotSent(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, no := range []string{"0", "no", "OFF", "false"} {
		require.NoError(t,
			f.agents().Switch(t.Context(), target(map[string]string{"plug": "1", "ssl_insecure": no, "ssl": "1"}), off))
	}
	for _, given := range f.calls() {
		assert.Equal(t, "action=off\nplug=1\nssl=1\n", given.Input)
	}
}

func TestBadParametersAreRefusedBeforeAnythingIsRun(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	for name, test := range map[string]struct {
		given map[string]string
		want  []string
	}{
		"unknown": {
			map[string]string{"plug": "1", "plgu": "hunter2"},
			[]string{"parameter plgu is not one of fence_fake"},
		},
		"missing": {map[string]string{"ip": "hunter2"}, []string{"parameter plug is required"}},
		"twice": {
			map[string]string{"plug": "hunter2", "port": "hunter2"},
			[]string{"parameter port is the same as plug, and both are given"},
		},
		"two lines": {
			map[string]string{"plug": "1", "api_path": "hunter2\naction=on"},
			[]string{"api_path: must be plain UTF-8 text"},
		},
		"two lines on Mac": {
			map[string]string{"plug": "1", "api_path": "hunter2\raction=on"},
			[]string{"api_path: must be plain UTF-8 text"},
		},
		"too much": {
			map[string]string{"plug": "1", "ip": strings.Repeat("hunter2", 5000)},
			[]string{"ip: must have a line of at most"},
		},
		"NUL": {
			map[string]string{"plug": "1", "api_path": "hunter2\x00"},
			[]string{"api_path: must be plain UTF-8 text"},
		},
		"not UTF-8": {
			map[string]string{"plug": "1", "api_path": "hunter2\xff"},
			[]string{"api_path: must be plain UTF-8 text"},
		},
		"boolean": {
			map[string]string{"plug": "1", "ssl": "hunter2"},
			[]string{"parameter ssl must be 1, yes, on, true, 0, no, off or false"},
		},
		"action": {
			map[string]string{"plug": "1", "action": "hunter2"},
			[]string{"parameter action must not be set"},
		},
		"programs": {
			map[string]string{
				"plug": "1", "password_script": "hunter2", "ipmitool-path": "hunter2",
				"ssh_options": "-o ProxyCommand=hunter2",
			},
			[]string{
				"parameter password_script must not be set: it has programs executed",
				"parameter ipmitool-path must not", "parameter ssh_options must not",
			},
		},
		"logs": {
			map[string]string{"plug": "1", "debug_file": "hunter2", "verbose": "1"},
			[]string{
				"parameter debug_file must not be set: it has passwords written to a file",
				"parameter verbose must not be set",
			},
		},
		"options": {
			map[string]string{
				"plug": "1", "ipaddr": "-oProxyCommand=hunter2",
				"username": "root -oProxyCommand=hunter2",
			},
			[]string{"parameter ipaddr must be one word", "parameter username must be one word"},
		},
		"list": {map[string]string{"port": "hunter2,2"}, []string{"parameter port must be one plug"}},
		"list, separated": {
			map[string]string{"plug": "hunter2;2", "plug_separator": ";"},
			[]string{"parameter plug must be one plug"},
		},
		"lies": {
			map[string]string{"plug": "1", "missing_as_off": "0"},
			[]string{"parameter missing_as_off must not be set"},
		},
		"prints": {
			map[string]string{"plug": "1", "version": "0"},
			[]string{"parameter version must not be set"},
		},
		"all at once": {
			map[string]string{"api_path": "hunter2", "ssl": "", "debug": "x", "\nplug": "1"},
			[]string{"parameter plug is required", "parameter ssl must", "parameter debug is not", `is not one of`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := agents.Power(t.Context(), target(test.given))
			for _, want := range test.want {
				assert.ErrorContains(t, err, want)
				assert.ErrorContains(t, agents.Switch(t.Context(), target(test.given), off), want)
			}
			assert.NotContains(t, fmt.Sprint(err), "hunter2")
			assert.ErrorContains(t, agents.Check(t.Context(), target(test.given)), test.want[0])
		})
	}
	t.Run("action of the agent", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.prints(strings.Replace(metadata, `<action name="off" />`, "", 1))
		assert.ErrorContains(t, f.agents().Switch(t.Context(), target(map[string]string{"plug": "1"}), off),
			"fence_fake has no action off")
		assert.Empty(t, f.calls())
	})
	t.Cleanup(func() { assert.Empty(t, f.calls()) })
}

func TestSecretsAreNowhereElse(t *testing.T) {
	t.Parallel()
	const secret = `p'a\ss "w<ör>d 1/2`
	f := newFake(t)
	core, logs := observer.New(zap.DebugLevel)
	config := configFor(f.directory)
	config.Logger = zap.New(core)
	agents, err := fenceagents.New(config)
	require.NoError(t, err)
	_, err = agents.Metadata(t.Context(), "fence_fake")
	require.NoError(t, err)
	// The fake agent writes what it has read.
	err = agents.Switch(t.Context(), target(map[string]string{
		"plug": "1", "username": "root", "password": secret, "complains": "INPUT", "code": "1",
	}), off)
	require.ErrorContains(t, err, "exit code 1: …")
	for _, part := range strings.Fields(secret) {
		assert.NotContains(t, err.Error(), part)
	}
	var known []string
	for _, given := range f.calls() {
		assert.Empty(t, given.Arguments)
		assert.Contains(t, given.Input, secret)
		for _, variable := range given.Environment {
			known = append(known, strings.SplitN(variable, "=", 2)[0])
			assert.NotContains(t, variable, secret)
		}
	}
	slices.Sort(known)
	assert.Equal(t, []string{"BELLWETHER_FENCE_CALL", "BELLWETHER_TEST_PROGRAM", "GORACE", "LC_ALL", "PATH"},
		slices.Compact(known))
	require.Len(t, logs.All(), 1)
	assert.NotContains(t, fmt.Sprint(logs.All()), "ör")
}
