package endpoints_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

func validConfig() endpoints.Config {
	return endpoints.Config{
		Namespace: "ns", Service: "web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Ports: []endpoints.Port{https},
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	addresses := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	ports := func(all ...endpoints.Port) []endpoints.Port { return all }
	for name, e := range map[string]struct {
		change func(*endpoints.Config)
		want   string
	}{
		"no namespace": {
			func(c *endpoints.Config) { c.Namespace = "" },
			`endpoints: Namespace: must be set: in a Pod, take it from the environment variable POD_NAMESPACE`,
		},
		"no service":  {func(c *endpoints.Config) { c.Service = "" }, `endpoints: Service: a DNS-1035 label`},
		"bad service": {func(c *endpoints.Config) { c.Service = "1web" }, `(got "1web")`},
		"no address": {
			func(c *endpoints.Config) { c.Addresses = nil },
			`endpoints: Addresses: must have at least one`,
		},
		"invalid address": {
			func(c *endpoints.Config) { c.Addresses = []netip.Addr{{}} },
			`endpoints: Addresses: must be an IP address (got "invalid IP")`,
		},
		"zone": {
			func(c *endpoints.Config) { c.Addresses = addresses("2001:db8::1%eth0") },
			`must not have a zone`,
		},
		"zone, mapped": {
			func(c *endpoints.Config) { c.Addresses = addresses("::ffff:10.0.0.1%eth0") },
			`must not have a zone`,
		},
		"loopback": {func(c *endpoints.Config) {
			c.Addresses = addresses("127.0.0.1")
		}, `must not be unspecified, loopback, link-local or multicast: Kubernetes publishes no such address (got ` +
			`"127.0.0.1")`},
		"loopback, mapped": {func(c *endpoints.Config) { c.Addresses = addresses("::ffff:127.0.0.1") }, `loopback`},
		"fails too soon": {
			func(c *endpoints.Config) { c.MaxFailing = 59 * time.Second },
			"endpoints: MaxFailing: must be 0 or at least ExpireAfter, 1m0s (got 59s)",
		},
		"link-local":  {func(c *endpoints.Config) { c.Addresses = addresses("fe80::1") }, `link-local`},
		"unspecified": {func(c *endpoints.Config) { c.Addresses = addresses("0.0.0.0") }, `unspecified`},
		"multicast":   {func(c *endpoints.Config) { c.Addresses = addresses("224.0.0.9") }, `multicast`},
		"one address twice": {
			func(c *endpoints.Config) { c.Addresses = addresses("10.0.0.1", "::ffff:10.0.0.1") },
			`endpoints: Addresses: must differ (got "10.0.0.1")`,
		},
		"no port": {func(c *endpoints.Config) { c.Ports = nil }, `Ports: must be from 1 to 100 (got 0)`},
		"port 0": {
			func(c *endpoints.Config) { c.Ports = ports(endpoints.Port{}) },
			`endpoints: Ports: Number: must be between 1 and 65535, inclusive (got 0)`,
		},
		"bad port name": {
			func(c *endpoints.Config) { c.Ports = ports(endpoints.Port{Name: "A b", Number: 1}) },
			`endpoints: Ports: Name:`,
		},
		"bad protocol": {
			func(c *endpoints.Config) { c.Ports = ports(endpoints.Port{Number: 1, Protocol: "tcp"}) },
			`Ports: Protocol: must be TCP, UDP or SCTP (got "tcp")`,
		},
		"bad app protocol": {func(c *endpoints.Config) {
			c.Ports = ports(endpoints.Port{Number: 1, AppProtocol: "a b"})
		}, `Ports: AppProtocol:`},
		"unnamed ports": {
			func(c *endpoints.Config) { c.Ports = ports(https, endpoints.Port{Number: 1}) },
			`Ports: must each have a Name if there are several (got none for 1)`,
		},
		"names twice": {func(c *endpoints.Config) {
			c.Ports = ports(https, endpoints.Port{Name: "https", Number: 1})
		}, `Ports: must differ in their Name (got "https" twice)`},
		"numbers twice": {func(c *endpoints.Config) {
			c.Ports = ports(https, endpoints.Port{Name: "a", Number: 443, Protocol: "UDP"})
		}, `endpoints: ConfigMapStore: needs Ports that differ in Number, by which it names entries; a LeaseStore ` +
			`does not (got 443 twice)`},
		"ports twice": {
			func(c *endpoints.Config) { c.Ports = ports(https, endpoints.Port{Name: "a", Number: 443}) },
			`Ports: must differ in Number or Protocol (got 443 TCP twice)`,
		},
		"short interval": {
			func(c *endpoints.Config) { c.Interval = time.Millisecond },
			`endpoints: Interval: must be at least 1s (got "1ms")`,
		},
		"short expiry": {
			func(c *endpoints.Config) { c.ExpireAfter = 29 * time.Second },
			`endpoints: ExpireAfter: must be at least 3 times Interval, 30s (got 29s)`,
		},
		"centuries": {func(c *endpoints.Config) {
			c.Interval, c.ExpireAfter = 200*365*24*time.Hour, 250*365*24*time.Hour
		}, `endpoints: ExpireAfter: must be at least 3 times Interval`},
		"bad settings": {func(c *endpoints.Config) { c.Settings = "A" }, `endpoints: Settings:`},
		"settings are store": {
			func(c *endpoints.Config) { c.Settings = "web-endpoints" },
			`endpoints: ConfigMapStore.Name: must be another ConfigMap than Settings (got "web-endpoints")`,
		},
		"long Pod UID": {
			func(c *endpoints.Config) { c.PodUID = strings.Repeat("a", 254) },
			`endpoints: PodUID: must be no more than 253 characters`,
		},
		"bad Pod UID": {
			func(c *endpoints.Config) { c.PodUID = "a\n" },
			`endpoints: PodUID: must be valid UTF-8 without control characters (got "a\n")`,
		},
		"negative timeout": {
			func(c *endpoints.Config) { c.WithdrawTimeout = -1 },
			`endpoints: WithdrawTimeout: must not be negative (got -1ns)`,
		},
		"bad store": {
			func(c *endpoints.Config) { c.Store = endpoints.ConfigMapStore{Name: "A"} },
			`endpoints: ConfigMapStore.Name:`,
		},
		"bad store namespace": {
			func(c *endpoints.Config) { c.Store = endpoints.ConfigMapStore{Namespace: "A"} },
			`endpoints: ConfigMapStore.Namespace:`,
		},
		"bad leases namespace": {
			func(c *endpoints.Config) { c.Store = endpoints.LeaseStore{Namespace: "A"} },
			`endpoints: LeaseStore.Namespace:`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := validConfig()
			e.change(&config)
			client := fake.NewClientset()
			_, err := endpoints.New(client, config)
			require.ErrorContains(t, err, e.want)
			assert.Empty(t, client.Actions())
		})
	}
	_, err := endpoints.New(nil, validConfig())
	require.EqualError(t, err, "endpoints: client: must not be nil")
	_, err = endpoints.New(fake.NewClientset(), endpoints.Config{})
	require.Error(t, err)
	assert.Len(t, strings.Split(err.Error(), "\n"), 4, "every rule: %v", err)
}

func TestGoodConfig(t *testing.T) {
	for name, change := range map[string]func(*endpoints.Config){
		"minimal":      func(*endpoints.Config) {},
		"unnamed port": func(c *endpoints.Config) { c.Ports = []endpoints.Port{{Number: 53, Protocol: "UDP"}} },
		"fast":         func(c *endpoints.Config) { c.Interval, c.ExpireAfter = time.Second, 3*time.Second },
		"two protocols, one port": func(c *endpoints.Config) {
			c.Store = endpoints.LeaseStore{}
			c.Ports = []endpoints.Port{{Name: "dns-tcp", Number: 53}, {Name: "dns", Number: 53, Protocol: "UDP"}}
		},
	} {
		config := validConfig()
		change(&config)
		before := len(config.Ports)
		_, err := endpoints.New(fake.NewClientset(), config)
		assert.NoError(t, err, name)
		assert.Len(t, config.Ports, before)
	}
}

// New does not change the caller's slices.
func TestConfigIsNotChanged(t *testing.T) {
	config := validConfig()
	config.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}
	config.Ports = []endpoints.Port{{Name: "b", Number: 2}, {Name: "a", Number: 1}}
	_, err := endpoints.New(fake.NewClientset(), config)
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.2", config.Addresses[0].String())
	assert.Equal(t, []endpoints.Port{{Name: "b", Number: 2}, {Name: "a", Number: 1}}, config.Ports)
}
