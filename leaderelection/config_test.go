package leaderelection_test

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*leaderelection.Config)
		want   []string // in the message: field, rule, value
	}{
		{
			"no namespace", func(c *leaderelection.Config) { c.Namespace = "" },
			[]string{"Namespace: ", "POD_NAMESPACE", "valueFrom: {fieldRef: {fieldPath: metadata.namespace}}", `""`},
		},
		{
			"namespace with a dot", func(c *leaderelection.Config) { c.Namespace = "a.b" },
			[]string{"Namespace: ", "must not contain dots", `"a.b"`},
		},
		{
			"namespace too long", func(c *leaderelection.Config) { c.Namespace = strings.Repeat("a", 64) },
			[]string{"Namespace: ", "no more than 63", "aaaa"},
		},
		{
			"no name", func(c *leaderelection.Config) { c.Name = "" },
			[]string{"Name: ", "lower case alphanumeric", `""`},
		},
		{
			"name in capitals", func(c *leaderelection.Config) { c.Name = "My-Lease" },
			[]string{"Name: ", "lower case alphanumeric", `"My-Lease"`},
		},
		{
			"identity with a newline", func(c *leaderelection.Config) { c.Identity = "a\nb" },
			[]string{"Identity: ", "control characters", `"a\nb"`},
		},
		{
			"identity too long", func(c *leaderelection.Config) { c.Identity = strings.Repeat("x", 254) },
			[]string{"Identity: ", "no more than 253", "xxx"},
		},
		{
			"identity not UTF-8", func(c *leaderelection.Config) { c.Identity = "a\xff" },
			[]string{"Identity: ", "UTF-8", `"a\xff"`},
		},
		{
			"negative duration", func(c *leaderelection.Config) { c.LeaseDuration = -time.Second },
			[]string{"LeaseDuration: ", "positive", "-1s"},
		},
		{
			"duration of half seconds", func(c *leaderelection.Config) { c.LeaseDuration = 15500 * time.Millisecond },
			[]string{"LeaseDuration: ", "whole seconds", "15.5s"},
		},
		{"duration too long for the record", func(c *leaderelection.Config) {
			c.LeaseDuration = (math.MaxInt32 + 1) * time.Second
		}, []string{"LeaseDuration: ", "32 bits", "596523h14m8s"}},
		{
			"duration too short for its renewals", func(c *leaderelection.Config) { c.LeaseDuration = 4 * time.Second },
			[]string{"LeaseDuration: ", "at least 1s between renewals", "is 800ms", "(got 4s)"},
		},
		{"negative margin", func(c *leaderelection.Config) { c.Margin = -1 }, []string{"Margin: ", "positive", "-1ns"}},
		{
			"margin without a unit", func(c *leaderelection.Config) { c.Margin = 3 },
			[]string{"Margin: ", "at least 200ms", "(got 3ns)"},
		},
		{
			"margin that the end of the process does not fit in",
			func(c *leaderelection.Config) { c.Margin = 199 * time.Millisecond },
			[]string{"Margin: ", "at least 200ms", "(got 199ms)"},
		},
		{
			"margin as long as the lease", func(c *leaderelection.Config) { c.Margin = 15 * time.Second },
			[]string{"Margin: ", "less than LeaseDuration 15s", "(got 15s)"},
		},
		{
			"margin that leaves no time", func(c *leaderelection.Config) { c.Margin = 12 * time.Second },
			[]string{"LeaseDuration: ", "Margin 12s", "(got 15s)"},
		},
		{
			"negative missed renewals", func(c *leaderelection.Config) { c.MissedRenewals = -3 },
			[]string{"MissedRenewals: ", "at least 1", "-3"},
		},
		{
			"too many missed renewals", func(c *leaderelection.Config) { c.MissedRenewals = 12 },
			[]string{"LeaseDuration: ", "MissedRenewals 12", "(got 15s)"},
		},
		{
			"address without port", func(c *leaderelection.Config) { c.Address = "host" },
			[]string{"Address: ", "host:port", `"host"`},
		},
		{
			"address without host", func(c *leaderelection.Config) { c.Address = ":80" },
			[]string{"Address: ", "IP address or a DNS name", `":80"`},
		},
		{
			"address of no host", func(c *leaderelection.Config) { c.Address = "0.0.0.0:80" },
			[]string{"Address: ", "can connect to", `"0.0.0.0:80"`},
		},
		{
			"address with a zone", func(c *leaderelection.Config) { c.Address = "[fe80::1%eth0]:80" },
			[]string{"Address: ", "zone", "eth0"},
		},
		{
			"address with a bad host", func(c *leaderelection.Config) { c.Address = "a b:80" },
			[]string{"Address: ", "IP address or a DNS name", `"a b:80"`},
		},
		{
			"address with port 0", func(c *leaderelection.Config) { c.Address = "host:0" },
			[]string{"Address: ", "port", "1 to 65535", `"host:0"`},
		},
		{
			"address with a port too high", func(c *leaderelection.Config) { c.Address = "host:65536" },
			[]string{"Address: ", "1 to 65535", `"host:65536"`},
		},
		{
			"address with a named port", func(c *leaderelection.Config) { c.Address = "host:http" },
			[]string{"Address: ", "1 to 65535", `"host:http"`},
		},
		{
			"negative release timeout", func(c *leaderelection.Config) { c.ReleaseTimeout = -time.Minute },
			[]string{"ReleaseTimeout: ", "negative", "-1m0s"},
		},
		{
			"release timeout without a unit", func(c *leaderelection.Config) { c.ReleaseTimeout = 20 },
			[]string{"ReleaseTimeout: ", "0 or at least 1ms", "(got 20ns)"},
		},
		{
			"step-down without a unit", func(c *leaderelection.Config) { c.StepDown = 3 },
			[]string{"StepDown: ", "0 or at least 1ms", "(got 3ns)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := leaderelection.Config{Namespace: "ns", Name: "l"}
			c.change(&config)
			client := fake.NewClientset()
			e, err := leaderelection.New(client, config)
			assert.Nil(t, e)
			for _, part := range append(c.want, "leaderelection: ") {
				require.ErrorContains(t, err, part)
			}
			assert.Empty(t, client.Actions())
		})
	}
}

func TestGoodAddresses(t *testing.T) {
	for _, address := range []string{"10.0.0.1:1", "[2001:db8::1]:65535", "a-0.daemon.default.svc:8443", "host:80"} {
		_, err := leaderelection.New(fake.NewClientset(),
			leaderelection.Config{Namespace: "ns", Name: "l", Address: address})
		assert.NoError(t, err)
	}
}

func TestAllBadFieldsAreNamedAtOnce(t *testing.T) {
	_, err := leaderelection.New(fake.NewClientset(), leaderelection.Config{Margin: -1, MissedRenewals: -1})
	for _, field := range []string{"Namespace", "Name", "Margin", "MissedRenewals"} {
		assert.ErrorContains(t, err, "leaderelection: "+field+": ")
	}
	_, err = leaderelection.New(nil, leaderelection.Config{Namespace: "ns", Name: "l"})
	assert.ErrorContains(t, err, "client")
}

func TestDefaultIdentityIsUniquePerProcess(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	ids := map[string]bool{}
	for range 3 {
		e, err := leaderelection.New(fake.NewClientset(), leaderelection.Config{Namespace: "ns", Name: "l"})
		require.NoError(t, err)
		term, err := e.TryAcquire(t.Context())
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(term.Identity, host+"_"))
		ids[term.Identity] = true
		require.NoError(t, e.Release(t.Context()))
	}
	assert.Len(t, ids, 3)
}
