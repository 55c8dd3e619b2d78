package nodeconfig_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// secrets of the namespace.
var secrets = map[string]map[string]string{
	"bmc":    {"password": "hunter2\n"},
	"pdu":    {"community": "private"},
	"switch": {"password": "hunter3"},
	"aws":    {"secret-key": "hunter4"},
	"odd": {
		"braces": "{{.NodeName}}", "lines": "a\naction=on", "empty": "\n", "binary": "\xff", "crlf": "a\r\n",
		"nul": "a\x00",
	},
}

func secretKeys(name string) ([]string, error) {
	if name == "forbidden" {
		return nil, errors.New("it is forbidden")
	}
	keys, found := secrets[name]
	var names []string
	for key := range keys {
		names = append(names, key)
	}
	if !found {
		return nil, fs.ErrNotExist
	}
	return names, nil
}

func secretValue(ref nodeplan.SecretRef) ([]byte, bool) {
	value, found := secrets[ref.Name][ref.Key]
	return []byte(value), found
}

func namespace(objects map[string]map[string]string) nodeconfig.Namespace {
	return nodeconfig.Namespace{
		ConfigMaps: objects,
		SecretKeys: secretKeys,
		Agent: func(name string) (agent.Metadata, error) {
			if name == "fence_silent" {
				return agent.Metadata{}, errors.New("it does\nnot answer")
			}
			a, found := agents[name]
			if !found {
				return a, fs.ErrNotExist
			}
			return a, nil
		},
	}
}

// configMap is what matters of one.
type configMap struct {
	Metadata struct{ Name string }
	Data     map[string]string
}

// load reads the ConfigMaps of a file, which are separated or a list, with a name in place of the
// one that stands for any.
func load(t *testing.T, file, node string) map[string]map[string]string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	objects := map[string]map[string]string{}
	keep := func(m configMap) {
		require.NotEmpty(t, m.Data)
		objects[strings.ReplaceAll(m.Metadata.Name, "[NODE_NAME]", node)] = m.Data
	}
	if strings.Contains(string(content), "\n- kind") {
		var list []configMap
		require.NoError(t, yaml.Unmarshal(content, &list))
		for _, m := range list {
			keep(m)
		}
		return objects
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(content)), 4096)
	for {
		var m configMap
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		keep(m)
	}
}

func plan(t *testing.T, n nodeconfig.Namespace, node nodeconfig.Node) nodeplan.Plan {
	t.Helper()
	p, err := nodeconfig.Resolve(n, []nodeconfig.Node{node}).Plan(node.Name)
	require.NoError(t, err)
	return p
}

// names of a level, with what each does to which device.
func names(level nodeplan.Level) []string {
	var all []string
	for _, m := range level {
		name := m.Name
		if m.Device != nil {
			name += " " + string(m.Action) + " " + m.Device.Key
		}
		all = append(all, name)
	}
	return all
}

func arguments(t *testing.T, d *nodeplan.Device) map[string]string {
	t.Helper()
	target, err := nodeconfig.Target(d, "w1", secretValue)
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range target.Parameters.Names() {
		all[name], _ = target.Parameters.Get(name)
	}
	require.True(t, slices.IsSortedFunc(d.Arguments, func(a, b nodeplan.Argument) int {
		return strings.Compare(a.Name, b.Name)
	}))
	return all
}
