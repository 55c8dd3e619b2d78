package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/command"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
)

// lines returns the lines of a table's rows that begin with these words, with single spaces.
func lines(out string, first ...string) []string {
	var found []string
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < len(first) {
			continue
		}
		if strings.Join(words[:len(first)], " ") == strings.Join(first, " ") {
			found = append(found, strings.Join(words, " "))
		}
	}
	return found
}

func TestStatusShowsElectionsAndRings(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		leave := w.elect("one")
		w.replica("a", nil)
		w.after(time.Second) // to be elected
		b := w.replica("b", nil)
		w.after(9 * time.Second)
		out := w.require("status")
		assert.Equal(t, []string{"ns daemon Held one 0 10s 1s"}, lines(out, "ns", "daemon"), out)
		assert.Equal(t, []string{"ns checksums 2/2 0 a"}, lines(out, "ns", "checksums"), out)

		b.pause()
		leave()
		w.after(18 * time.Second)
		out = w.require("status", "-A")
		assert.Equal(t, []string{"ns daemon Released - 0 - 18s"}, lines(out, "ns", "daemon"), out)
		assert.Equal(t, []string{"ns checksums 1/2 0 a"}, lines(out, "ns", "checksums"), out)
		assert.Empty(t, w.writes)
	})
}

// The component of deploy/ separates the renewals of a namespace from the other requests there.
func TestStatusShowsWhereRenewalsAreNotSeparated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.elect("one")
		w.after(time.Second)
		out := w.require("status")
		assert.Contains(t, out, "none: a program's other requests can delay its renewals")

		text, err := os.ReadFile("../../../../deploy/components/flowcontrol/schema.yaml")
		require.NoError(t, err)
		var schema flowcontrolv1.FlowSchema
		require.NoError(t, yaml.UnmarshalStrict(text, &schema))
		schemas := w.kube.FlowcontrolV1().FlowSchemas()
		_, err = schemas.Create(t.Context(), &schema, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Contains(t, w.require("status"), "none: ", "it is for another namespace")

		schema.Name = "daemon"
		schema.Spec.Rules[0].Subjects[0].ServiceAccount.Namespace = "ns"
		schema.Spec.Rules[0].ResourceRules[0].Namespaces[0] = "ns"
		_, err = schemas.Create(t.Context(), &schema, metav1.CreateOptions{})
		require.NoError(t, err)
		out = w.require("status")
		assert.Contains(t, lines(out, "ns"), "ns daemon", out)
		assert.NotContains(t, out, "none: ")

		w.forbidden["list flowschemas"] = true
		assert.NotContains(t, w.require("status"), "FLOW CONTROL", "few users may list them")
	})
}

// What can be read is shown, and all that cannot is said at once.
func TestMissingRightsAreNamedTogether(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.elect("one")
		w.replica("a", nil)
		w.after(10 * time.Second)
		w.configMaps(2)
		w.after(10 * time.Second)
		for command, c := range map[string]struct {
			forbidden []string
			missing   []string // in the error
			shown     string
		}{
			"status": {
				[]string{"list configmaps", "list endpointslices", "list nodefences"},
				[]string{
					"list on resource configmaps of API group \"\" in namespace ns",
					"list on resource endpointslices of API group \"discovery.k8s.io\" in namespace ns",
					"list on resource nodefences of API group \"fencing.bellwether.dev\" by a ClusterRole",
				},
				"daemon",
			},
			"status -A": {
				[]string{"list leases"},
				[]string{"list on resource leases of API group \"coordination.k8s.io\" by a ClusterRole"},
				"FENCES",
			},
			"fences": {[]string{"list nodefences"}, []string{"list on resource nodefences"}, "none"},
			"ring checksums": {
				[]string{"list leases", "get leases"},
				[]string{
					"list on resource leases of API group \"coordination.k8s.io\" in namespace ns",
					"get on resource leases",
				},
				"configmaps",
			},
			"ring checksums --resource configmap,pods": {
				[]string{"list leases", "list configmaps", "list pods"},
				[]string{
					"list on resource leases", "list on resource configmaps of API group \"\" by a ClusterRole",
					"list on resource pods",
				},
				"RING",
			},
			"orphans checksums --resource configmap": {
				[]string{"list configmaps"}, []string{"list on resource configmaps"}, "",
			},
			"plan checksums --resource configmap --without a": {
				[]string{"list leases", "list configmaps"},
				[]string{"list on resource leases", "list on resource configmaps"},
				"",
			},
			"explain configmap/x0": {
				[]string{"get configmaps", "list leases"},
				[]string{"get on resource configmaps of API group \"\" in namespace ns"},
				"",
			},
			"explain configmap/x0 --ring checksums": {
				[]string{"get configmaps", "list leases", "get leases"},
				[]string{
					"get on resource configmaps",
					"list on resource leases of API group \"coordination.k8s.io\" in namespace ns",
				},
				"",
			},
		} {
			clear(w.forbidden)
			for _, f := range c.forbidden {
				w.forbidden[f] = true
			}
			out, err := w.kubectl(strings.Fields(command)...)
			require.Error(t, err, command)
			assert.Contains(t, err.Error(), "these rights are missing", command)
			for _, m := range c.missing {
				assert.Contains(t, err.Error(), m, command)
			}
			assert.Contains(t, out, c.shown, command)
		}
		assert.Empty(t, w.writes)
	})
}

func TestFormats(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.elect("one")
		w.replica("a", nil)
		w.after(10 * time.Second)
		var status view.Status
		require.NoError(t, json.Unmarshal([]byte(w.require("status", "-o", "json")), &status))
		require.Len(t, status.Rings, 1)
		assert.Equal(t, view.Summary{
			Namespace: "ns", Name: "checksums", Members: 1, Ready: 1, Sharder: "a",
		}, status.Rings[0])
		var again view.Status
		require.NoError(t, yaml.Unmarshal([]byte(w.require("status", "-o", "yaml")), &again))
		assert.Equal(t, status, again)
		assert.Contains(t, w.require("status", "-o", "wide"), "DURATION")
		assert.NotContains(t, w.require("status"), "DURATION")
		_, err := w.kubectl("status", "-o", "xml")
		assert.EqualError(t, err, `kubectl-bellwether: --output: must be json, yaml or wide (got "xml")`)
	})
}

// Tables name a leader as its Pod is named.
func TestLeadersAreNamedAsTheirPods(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for identity, shown := range map[string]string{
			"web-7d4b9_53afa1d8c86ed2c4":                                      "web-7d4b9_53af…",
			"web-7d4b9_53afa1d8c86ed2c4_0c2b6d0e-43a6-4a63-9a3a-4d3f0f3c2a11": "web-7d4b9_53af…",
			"my_daemon_one": "my_daemon_one",
		} {
			stop := w.elect(identity)
			w.after(10 * time.Second)
			narrow, wide := w.require("status"), w.require("status", "-o", "wide")
			stop()
			assert.Contains(t, narrow, " "+shown+" ")
			assert.Contains(t, wide, " "+identity+" ")
		}
	})
}

// Colours are for people: not for a pipe, and not for people who do not want them.
func TestColours(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.replica("a", nil)
		w.after(10 * time.Second)
		for name, c := range map[string]struct {
			terminal, noColour, coloured bool
		}{
			"terminal": {true, false, true}, "pipe": {false, false, false}, "NO_COLOR": {true, true, false},
		} {
			var out bytes.Buffer
			e := w.environment(&out)
			e.Terminal, e.NoColour = c.terminal, c.noColour
			root := command.New(e)
			root.SetArgs([]string{"ring", "checksums"})
			require.NoError(t, root.ExecuteContext(t.Context()))
			assert.Equal(t, c.coloured, strings.Contains(out.String(), "\x1b["), name)
		}
	})
}

// In a pipe, --watch prints again when more than ages has changed.
func TestWatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.replica("a", nil)
		w.after(10 * time.Second)
		for joins, c := range map[string][]string{"b": {"status"}, "c": {"ring", "checksums"}} {
			var out bytes.Buffer
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.run(ctx, &out, append(c, "--watch")...) }()
			w.after(30 * time.Second)
			assert.Equal(t, 0, strings.Count(out.String(), "---"), out.String())
			w.replica(joins, nil)
			w.after(30 * time.Second)
			assert.Equal(t, 1, strings.Count(out.String(), "---"), out.String())
			stop()
			synctest.Wait()
			require.NoError(t, <-ended)
		}
		assert.Empty(t, w.writes)
		_, err := w.kubectl("status", "--watch", "--interval=1ms")
		assert.ErrorContains(t, err, "--interval")
	})
}
