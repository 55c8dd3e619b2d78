package shardlease_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

func TestBadConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*shardlease.Config)
		want   []string // in the message: field, rule, value
	}{
		{
			"no namespace", func(c *shardlease.Config) { c.Namespace = "" },
			[]string{"Namespace: ", "POD_NAMESPACE", "valueFrom: {fieldRef: {fieldPath: metadata.namespace}}", `""`},
		},
		{"no ring", func(c *shardlease.Config) { c.Ring = "" }, []string{"Ring: ", "lower case alphanumeric", `""`}},
		{
			"ring with a dot", func(c *shardlease.Config) { c.Ring = "a.b" },
			[]string{"Ring: ", "must not contain dots", `"a.b"`},
		},
		{
			"ring too long", func(c *shardlease.Config) { c.Ring = strings.Repeat("a", 64) },
			[]string{"Ring: ", "no more than 63", "aaa"},
		},
		{
			"identity in capitals", func(c *shardlease.Config) { c.Identity = "Host" },
			[]string{"Identity: ", "lower case alphanumeric", `"Host"`},
		},
		{
			"identity of the sharder", func(c *shardlease.Config) { c.Identity = shardlease.Sharder },
			[]string{"Identity: ", "lower case alphanumeric", `"bellwether.dev/sharder"`},
		},
		{
			"identity too long for a label", func(c *shardlease.Config) { c.Identity = strings.Repeat("a", 64) },
			[]string{"Identity: ", "label value", "no more than 63", "aaa"},
		},
		{
			"incarnation with a newline", func(c *shardlease.Config) { c.PodUID = "a\n" },
			[]string{"PodUID: ", "control characters", `"a\n"`},
		},
		{
			"incarnation too long", func(c *shardlease.Config) { c.PodUID = strings.Repeat("a", 254) },
			[]string{"PodUID: ", "no more than 253", "aaa"},
		},
		{
			"bad label", func(c *shardlease.Config) { c.Labels = map[string]string{"a b": "c"} },
			[]string{"Labels: ", "alphanumeric", `"a b"`},
		},
		{
			"bad value of a label", func(c *shardlease.Config) { c.Labels = map[string]string{"a": "b c"} },
			[]string{`Labels["a"]: `, "alphanumeric", `"b c"`},
		},
		{
			"the ring's own label", func(c *shardlease.Config) {
				c.Labels = map[string]string{shardlease.RingLabel: "c"}
			},
			[]string{"Labels: ", "own label", shardlease.RingLabel},
		},
		{
			"duration of half seconds", func(c *shardlease.Config) { c.LeaseDuration = 15500 * time.Millisecond },
			[]string{"LeaseDuration: ", "whole seconds", "15.5s"},
		},
		{
			"duration too short for its renewals", func(c *shardlease.Config) { c.LeaseDuration = 4 * time.Second },
			[]string{"LeaseDuration: ", "at least 1s between renewals", "(got 4s)"},
		},
		{
			"duration too long", func(c *shardlease.Config) { c.LeaseDuration = 2 * time.Hour },
			[]string{"LeaseDuration: ", "at most 1h0m0s", "(got 2h0m0s)"},
		},
		{"negative margin", func(c *shardlease.Config) { c.Margin = -1 }, []string{"Margin: ", "positive", "-1ns"}},
		{
			"negative return", func(c *shardlease.Config) { c.ReturnWithin = -time.Second },
			[]string{"ReturnWithin: ", "-1s"},
		},
		{
			"return in parts of a second", func(c *shardlease.Config) { c.ReturnWithin = 1500 * time.Millisecond },
			[]string{"ReturnWithin: ", "whole seconds", "1.5s"},
		},
		{
			"return after hours", func(c *shardlease.Config) { c.ReturnWithin = 2 * time.Hour },
			[]string{"ReturnWithin: ", "at most 1h0m0s", "2h0m0s"},
		},
		{
			"negative weight", func(c *shardlease.Config) { c.Weight = ptr.To(-1) },
			[]string{"Weight: ", "from 0 to 1000", `(got "-1")`},
		},
		{
			"weight too great", func(c *shardlease.Config) { c.Weight = ptr.To(1001) },
			[]string{"Weight: ", "from 0 to 1000", `(got "1001")`},
		},
		{
			"version too long", func(c *shardlease.Config) { c.Version = strings.Repeat("1", 64) },
			[]string{"Version: ", "at most 63 bytes", "111"},
		},
		{
			"version on two lines", func(c *shardlease.Config) { c.Version = "1\n2" },
			[]string{"Version: ", "on one line", `(got "1\n2")`},
		},
		{
			"negative release timeout", func(c *shardlease.Config) { c.ReleaseTimeout = -time.Minute },
			[]string{"ReleaseTimeout: ", "negative", "-1m0s"},
		},
		{
			"margin without a unit", func(c *shardlease.Config) { c.Margin = 3 },
			[]string{"Margin: ", "at least 200ms", "(got 3ns)"},
		},
		{
			"release timeout without a unit", func(c *shardlease.Config) { c.ReleaseTimeout = 20 },
			[]string{"ReleaseTimeout: ", "0 or at least 1ms", "(got 20ns)"},
		},
		{
			"step-down without a unit", func(c *shardlease.Config) { c.StepDown = 3 },
			[]string{"StepDown: ", "0 or at least 1ms", "(got 3ns)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := shardlease.Config{Namespace: "ns", Ring: "r", Identity: "a"}
			c.change(&config)
			client := fake.NewSimpleClientset()
			l, err := shardlease.New(client, config)
			assert.Nil(t, l)
			for _, part := range append(c.want, "shardlease: ") {
				require.ErrorContains(t, err, part)
			}
			assert.Empty(t, client.Actions())
		})
	}
	_, err := shardlease.New(nil, shardlease.Config{})
	assert.ErrorContains(t, err, "client: must not be nil")
	_, err = shardlease.New(fake.NewSimpleClientset(), shardlease.Config{Identity: "a", Margin: -1})
	for _, field := range []string{"Namespace: ", "Ring: ", "Margin: "} {
		assert.ErrorContains(t, err, field)
	}
}

func TestIdentityIsTheHostname(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	l, err := shardlease.New(fake.NewSimpleClientset(), shardlease.Config{Namespace: "ns", Ring: "r"})
	require.NoError(t, err)
	assert.Equal(t, []string{"ns", "r", host}, []string{l.Namespace(), l.Ring(), l.Identity()})
}

func TestTheGreatestValuesAreAllowed(t *testing.T) {
	for _, weight := range []*int{nil, ptr.To(0), ptr.To(shardlease.MaxWeight)} {
		_, err := shardlease.New(fake.NewSimpleClientset(), shardlease.Config{
			Namespace: "ns", Ring: "r", Identity: "a", Weight: weight, Version: strings.Repeat("1", 63),
		})
		assert.NoError(t, err)
	}
}

func TestLimitedClients(t *testing.T) {
	for _, c := range []struct {
		name    string
		qps     float32
		refused bool
		warned  bool
	}{
		{"none", -1, false, false},
		{"client-go's default", 0, false, true},
		{"too low for renewals", 0.1, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "api.invalid", QPS: c.qps, Burst: 10})
			_, err := shardlease.New(client,
				shardlease.Config{Namespace: "ns", Ring: "r", Identity: "a", Logger: zap.New(core)})
			if c.refused {
				require.ErrorContains(t, err, "client: must be allowed at least two requests in each renew interval "+
					"of 3s (got a limit of 0.1 per second)")
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, c.warned, logs.FilterMessageSnippet("rate limit").Len() == 1)
		})
	}
	limited := &rest.Config{Host: "api.invalid"}
	_, err := shardlease.New(kubernetes.NewForConfigOrDie(shardlease.LeaseConfig(limited)),
		shardlease.Config{Namespace: "ns", Ring: "r", Identity: "a"})
	assert.NoError(t, err)
}

func TestRosterConfig(t *testing.T) {
	_, err := shardstate.NewTracker(shardstate.Config{
		Namespace: "A", Ring: "", LeaseDuration: time.Second, GCPeriod: -1,
	})
	for _, want := range []string{
		"Namespace: ", `"A"`, "Ring: ",
		"LeaseDuration: must be whole seconds, from 3s to 1h0m0s (got 1s)",
		"GCPeriod: must not be negative (got -1ns)",
	} {
		assert.ErrorContains(t, err, want)
	}
}
