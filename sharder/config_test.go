package sharder

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	kube, meta := fakes(t)
	for want, spoil := range map[string]func(*Config){
		`sharder: Ring: must be set (got "")`:       func(c *Config) { c.Ring = "" },
		`sharder: Ring: a lowercase RFC 1123 label`: func(c *Config) { c.Ring = "My_Ring" },
		`sharder: Ring: must be no more than 63`: func(c *Config) {
			c.Ring = strings.Repeat("a", 64)
		},
		`sharder: Namespace: must be set: in a Pod, take it from the environment variable`: func(c *Config) {
			c.Namespace = ""
		},
		`sharder: Resources: must name at least one`:              func(c *Config) { c.Resources = nil },
		`sharder: Concurrency: must be from 1 to 10000 (got -1)`:  func(c *Config) { c.Concurrency = -1 },
		`sharder: MaxDrains: must be from 1`:                      func(c *Config) { c.MaxDrains = -1 },
		`sharder: Balance: must be 0, or from 1 to 100 (got 0.9)`: func(c *Config) { c.Balance = 0.9 },
		`sharder: Balance: must be 0, or from 1 to 100 (got NaN)`: func(c *Config) { c.Balance = math.NaN() },
		`sharder: PageSize: must be from 1`:                       func(c *Config) { c.PageSize = -1 },
		`sharder: ScanInterval: must be at least 1s (got 1ms)`: func(c *Config) {
			c.ScanInterval = time.Millisecond
		},
		`sharder: GCPeriod: must be at least 0s`: func(c *Config) { c.GCPeriod = -1 },
		`sharder: OverdueAfter: must be at least 1s (got 999ms)`: func(c *Config) {
			c.OverdueAfter = 999 * time.Millisecond
		},
		`sharder: LeaseDuration: must be whole seconds`: func(c *Config) {
			c.LeaseDuration = 5500 * time.Millisecond
		},
		`sharder: LeaseDuration: must be from 3s to 1h0m0s (got`: func(c *Config) { c.LeaseDuration = time.Second },
		`sharder: Resources[0].GVR: must have a version`: func(c *Config) {
			c.Resources = []api.Resource{{}}
		},
		`sharder: Resources[0].Selector: must not mention a label`: func(c *Config) {
			c.Resources[0].Selector = ringtest.SelectorOf(t, api.DrainLabel(testRing))
		},
	} {
		c := testConfig()
		spoil(&c)
		_, err := New(kube, meta, ringtest.TestMapper(), c)
		assert.ErrorContains(t, err, want)
	}
	_, err := New(nil, meta, ringtest.TestMapper(),
		Config{Ring: "x", Resources: []api.Resource{{GVR: ringtest.ConfigMaps}}})
	assert.ErrorContains(t, err, "sharder: kube: must not be nil")
	assert.ErrorContains(t, err, "sharder: Namespace: ", "all at once")
	_, err = New(kube, meta, ringtest.TestMapper(), testConfig())
	require.NoError(t, err)
}
