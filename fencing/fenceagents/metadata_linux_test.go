package fenceagents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	metadata, err := f.agents().Metadata(t.Context(), "fence_fake")
	require.NoError(t, err)
	assert.Equal(t, "fence_fake", metadata.Name)
	assert.Equal(t, []string{"on", "off", "status", "metadata"}, metadata.Actions)
	parameters := map[string]agent.ParameterSpec{}
	var names []string
	for _, p := range metadata.Parameters {
		parameters[p.Name] = p
		names = append(names, p.Name)
	}
	assert.Equal(t, strings.Fields("ip ipaddr plug port password passwd username resourceGroup ssl_insecure ssl does "+
		"says complains code child api_path plug_separator method"),
		names, "without what may not be set")
	assert.Equal(t,
		agent.ParameterSpec{Name: "plug", Obsoletes: []string{"port"}, Type: agent.TypeString, Required: true},
		parameters["plug"])
	assert.Equal(t, agent.ParameterSpec{Name: "port", Deprecated: true, Type: agent.TypeString, Required: true},
		parameters["port"])
	assert.Equal(t, agent.ParameterSpec{Name: "ssl", Type: agent.TypeBoolean, Default: "1"}, parameters["ssl"])
	assert.Equal(t,
		agent.ParameterSpec{
			Name: "method", Type: agent.TypeSelect, Default: "onoff",
			Options: []string{"onoff", "cycle"}, ShortDesc: "Method to fence",
		},
		parameters["method"])
}

func TestMetadataIsAskedForOnceForEachVersionOfTheProgram(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	program := filepath.Join(f.directory, "fence_fake")
	require.NoError(t, os.Remove(program))
	const script = "#!/bin/sh\ncd \"${0%/*}\" && echo >> calls && cat metadata\n"
	write := func(script string) { subprocess.WriteProgram(t, program, script) }
	write(script)
	agents := f.agents()
	ask := func() int {
		_, err := agents.Metadata(t.Context(), "fence_fake")
		require.NoError(t, err)
		content, err := os.ReadFile(filepath.Join(f.directory, "calls"))
		require.NoError(t, err)
		return strings.Count(string(content), "\n")
	}
	assert.Equal(t, 1, ask())
	assert.Equal(t, 1, ask())
	write(script + "# a package was upgraded\n")
	assert.Equal(t, 2, ask())
	then := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(program, then, then))
	assert.Equal(t, 3, ask())
	require.NoError(t, os.Rename(program, program+".old"))
	write(script)
	require.NoError(t, os.Chtimes(program, then, then))
	assert.Equal(t, 4, ask())
}

func TestBadMetadataIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ printed, want string }{
		"nothing": {"", "not the XML of a resource-agent: EOF"},
		"text":    {"usage: fence_fake", "not the XML"},
		"cut":     {metadata[:len(metadata)/2], "not the XML"},
		"another": {"<other/>", "not the XML"},
		"no parameters": {
			"<resource-agent><actions><action name='on'/></actions></resource-agent>",
			"no parameters or no actions",
		},
		"no actions": {
			"<resource-agent><parameters><parameter name='x'/></parameters></resource-agent>",
			"no parameters or no actions",
		},
		"no name": {"<resource-agent><parameters><parameter/></parameters><actions><action " +
			"name='on'/></actions></resource-agent>", "without a name"},
		"endless": {
			"<resource-agent>" + strings.Repeat("<x></x>", 1<<18) + "</resource-agent>",
			"more than 1048576 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.prints(test.printed)
			_, err := f.agents().Metadata(t.Context(), "fence_fake")
			assert.ErrorContains(t, err, "fenceagents: metadata of fence_fake: ")
			assert.ErrorContains(t, err, test.want)
			_, err = f.agents().Power(t.Context(), target(map[string]string{"plug": "1"}))
			assert.ErrorContains(t, err, test.want)
			assert.Empty(t, f.calls())
		})
	}
}
