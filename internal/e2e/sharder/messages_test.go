package sharder_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var (
	// secrets are a resource without any right.
	secrets = kind{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret",
		namespaced: true,
	}
	// comets are a resource that is not installed.
	comets = kind{
		Resource: schema.GroupVersionResource{Group: customGroup, Version: "v1", Resource: "comets"},
		Kind:     "Comet", namespaced: true,
	}
)

// TestMistakesAreNamedAtStart starts replicas that cannot work: they end, and say why.
func TestMistakesAreNamedAtStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind kind
		args []string
		want []string
	}{
		"no rights, sharder": {
			kind: secrets, args: []string{"-without-shard"},
			want: []string{"sharder: ", `not allowed to list secrets: grant the verb "list" on resource secrets of ` +
				`API group "" in namespace `, `grant the verb "get"`, `grant the verb "patch"`},
		},
		"no rights, replica": {
			kind: secrets,
			want: []string{"sharder: not allowed to list secrets: grant the verb"},
		},
		"no such resource, shard": {
			kind: comets, args: []string{"-without-sharder"},
			want: []string{"comets", "is its CustomResourceDefinition installed?"},
		},
		"identity too long": {
			kind: configMaps, args: []string{"-identity=" + strings.Repeat("x", 64)},
			want: []string{"shardlease: Identity: ", "63", strings.Repeat("x", 64)},
		},
		"identity that no label can have": {
			kind: configMaps, args: []string{"-identity=a_shard."},
			want: []string{"shardlease: Identity: ", "a_shard."},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t, configMaps)
				config := c.user("a") // has no right to any other kind
				c.kinds = []kind{test.kind}
				p := c.startAs(config, "a", test.args...)
				c.requireExit(p, 1)
				for _, text := range test.want {
					assert.Contains(t, c.log(p), text)
				}
			})
		})
	}
}

// A sharder may start before its only resource is served.
func TestASharderThatWaitsForAResourceSaysSo(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t, configMaps)
		config := c.user("a")
		c.kinds = []kind{comets}
		p := c.startAs(config, "a", "-without-shard")
		c.requireLog(p, "objects of some resources are not distributed")
		assert.Contains(t, c.log(p), "is its CustomResourceDefinition installed?")
	})
}

func TestSharderWithARateLimitSaysSo(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		p := c.start("sharder", "-without-shard", "-qps=0")
		c.requireLog(p, "the client is limited to few requests per second: each object takes at least one; raise QPS "+
			"and Burst of its rest.Config, or set QPS to -1")
		c.start("a", "-without-sharder")
		c.requireLog(p, "the client holds the sharder's requests back: raise QPS and Burst of its rest.Config, or "+
			"set QPS to -1")
		c.requireSettled("a")
	})
}
