package endpoints_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

func inConfigMap(t *testing.T, test func(c *cluster)) {
	t.Helper()
	inCluster(t, stores["ConfigMap"], test)
}

func TestKeysOfEntries(t *testing.T) {
	for address, want := range map[string]string{
		"192.168.0.3":          "ip-192-168-0-3-443",
		"2001:4860:4860::8888": "ip-2001-4860-4860--8888-443",
		"2001:4860::1":         "ip-2001-4860--1-443",
		"2001:db8::":           "ip-2001-db8---443",
		"::ffff:192.168.0.3":   "ip-192-168-0-3-443",
		"2001:0DB8:0:0::A":     "ip-2001-db8--a-443",
		"1:2:3:4:5:6:7:8":      "ip-1-2-3-4-5-6-7-8-443",
	} {
		assert.Equal(t, want, endpoints.EntryKey(netip.MustParseAddr(address), 443))
	}
}

func TestEveryKeyNamesItsAddressAndPort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "family")
		bytes := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 0, 1, 10, 255, 0xab}), size, size).Draw(t, "address")
		address, _ := netip.AddrFromSlice(bytes)
		port := rapid.Int32Range(1, 65535).Draw(t, "port")
		gotAddress, gotPort, err := endpoints.ParseEntryKey(endpoints.EntryKey(address, port))
		if err != nil || gotAddress != address.Unmap() || gotPort != port {
			t.Fatalf("%v %d: key %s is read as %v %d: %v", address, port, endpoints.EntryKey(address, port), gotAddress,
				gotPort, err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, key := range []string{
		"ip-10-0-0-1-443", "ip-2001-db8--1-443", "ip---1-1", "ip-", "ip-1", "",
		"ip-01-0-0-1-443", "ip-10-0-0-1-0443",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		address, port, err := endpoints.ParseEntryKey(key)
		if err == nil && endpoints.EntryKey(address, port) != key {
			t.Errorf("%q is another spelling of %q: one endpoint would have two entries", key,
				endpoints.EntryKey(address, port))
		}
	})
}

// The format is that of the Kubernetes proposal that first described this reconciler.
func TestEntryIsInTheFormatOfTheProposal(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		i := newInstance(c, "2001:4860:4860::8888", func(config *endpoints.Config) {
			config.Addresses = append(config.Addresses, netip.MustParseAddr("192.168.0.3"))
			config.Store = endpoints.ConfigMapStore{Name: "kube-apiserver-endpoints"}
		})
		begin := time.Now().UTC()
		i.once(c)
		time.Sleep(time.Minute)
		i.once(c)
		m, err := c.client.CoreV1().ConfigMaps("ns").Get(c.Context(), "kube-apiserver-endpoints", metav1.GetOptions{})
		require.NoError(c, err)
		want := fmt.Sprintf(`{"name":"https","port":443,"protocol":"TCP","creationTimestamp":%q,"updateTimestamp":%q}`,
			begin.Format(time.RFC3339), begin.Add(time.Minute).Format(time.RFC3339))
		require.Len(c, m.Data, 2)
		assert.JSONEq(c, want, m.Data["ip-192-168-0-3-443"])
		assert.JSONEq(c, want, m.Data["ip-2001-4860-4860--8888-443"])
	})
}

func TestUnknownFieldsOfTheOwnEntryStay(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		c.createConfigMap("web-endpoints", map[string]string{
			"ip-10-0-0-1-443": `{"NAME":"old","port":443,"kind":"ControllerEndpointData","zone":{"a":[1.50]},` +
				`"big":12345678901234567890,"updateTimestamp":"2026-11-21T10:00:00Z"}`,
		})
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		i.once(c)
		var got map[string]json.RawMessage
		require.NoError(c, json.Unmarshal([]byte(c.data()["ip-10-0-0-1-443"]), &got))
		assert.Equal(c, `"ControllerEndpointData"`, string(got["kind"]))
		assert.Contains(c, c.data()["ip-10-0-0-1-443"], `"zone":{"a":[1.50]}`)
		assert.Equal(c, `12345678901234567890`, string(got["big"]))
		assert.Equal(c, `"https"`, string(got["name"]))
		assert.NotContains(c, got, "NAME")
		c.requirePublished("10.0.0.1")
	})
}

func TestMalformedEntryIsKeptAndReportedAndDoesNotSpread(t *testing.T) {
	good := deadEntry
	for name, e := range map[string]struct{ key, value, problem string }{
		"not a key":           {"note", "somebody's", "the key must be ip-<address>-<port>"},
		"another spelling":    {"ip-2001-DB8--1-443", good, "the key must be"},
		"leading zero":        {"ip-10-0-0-7-0443", good, "the key must be"},
		"no port":             {"ip-10-0-0-7-", good, "the key must be"},
		"port out of range":   {"ip-10-0-0-7-70000", good, "the key must be"},
		"loopback":            {"ip-127-0-0-1-443", good, "must not be unspecified, loopback"},
		"link-local":          {"ip-fe80--1-443", good, "must not be unspecified, loopback"},
		"not JSON":            {"ip-10-0-0-7-443", "somebody's", "invalid character"},
		"not an object":       {"ip-10-0-0-7-443", "[]", "cannot unmarshal"},
		"null":                {"ip-10-0-0-7-443", "null", "port"},
		"empty":               {"ip-10-0-0-7-443", "", "unexpected end"},
		"another port":        {"ip-10-0-0-7-444", good, "port is 443, not 444"},
		"no port in it":       {"ip-10-0-0-7-443", `{"updateTimestamp":"2026-11-21T10:00:00Z"}`, "Number"},
		"a name that is none": {"ip-10-0-0-7-443", strings.Replace(good, "https", "HTTPS!", 1), "Name"},
		"an unknown protocol": {"ip-10-0-0-7-443", strings.Replace(good, "TCP", "ICMP", 1), "Protocol"},
		"a hint that is none": {
			"ip-10-0-0-7-443", strings.Replace(good, "{", `{"appProtocol":"a b",`, 1),
			"AppProtocol",
		},
		"a time that is none": {
			"ip-10-0-0-7-443", strings.Replace(good, "2026-11-21T10:07:30Z", "noon", 1),
			"parsing time",
		},
		"no time":               {"ip-10-0-0-7-443", `{"name":"https","port":443}`, "updateTimestamp is missing"},
		"a number for the name": {"ip-10-0-0-7-443", `{"name":1,"port":443}`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			inConfigMap(t, func(c *cluster) {
				c.createConfigMap("web-endpoints", map[string]string{e.key: e.value})
				i := newInstance(c, "10.0.0.1", nil)
				for range 20 { // longer than it would take to expire
					i.once(c)
					time.Sleep(interval)
				}
				assert.Equal(c, e.value, c.data()[e.key])
				c.requirePublished("10.0.0.1")
				require.Len(c, i.told().malformed, 1, "told once")
				assert.Equal(c, e.key, i.told().malformed[0].Key)
				assert.ErrorContains(c, i.told().malformed[0].Problem, e.problem)
				assert.Equal(c, 1, i.logs.FilterMessageSnippet("malformed").Len())
				assert.Contains(c, strings.Join(i.told().events, "\n"), "Warning web EndpointMalformed entry "+e.key)

				require.NoError(c, i.Withdraw(c.Context()))
				assert.Equal(c, map[string]string{e.key: e.value}, c.data())
			})
		})
	}
}

func TestMalformedOwnEntryIsMended(t *testing.T) {
	for _, value := range []string{
		"garbage", "", "null",
		`{"updateTimestamp":"9999-12-31T23:59:59Z","creationTimestamp":"9999-12-31T23:59:59Z"}`,
	} {
		inConfigMap(t, func(c *cluster) {
			i := newInstance(c, "10.0.0.1", nil)
			i.once(c)
			c.patchData("web-endpoints", fmt.Sprintf(`{"ip-10-0-0-1-443":%q}`, value))
			i.once(c)
			c.requirePublished("10.0.0.1")
			require.NoError(c, i.Withdraw(c.Context()))
			assert.Empty(c, c.data())
		})
	}
}

// Clocks stand still, or are set back. Other instances would consider an unchanged entry dead.
func TestEveryHeartbeatChangesTheEntry(t *testing.T) {
	inBoth(t, func(c *cluster) {
		first, second := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.SetClock(offsetClock{clock.System(), -time.Hour})
		})
		seen := map[string]bool{}
		for n := range 10 {
			if n < 5 {
				first.once(c)
			} else {
				second.once(c)
			}
			text := c.storeText()
			assert.False(c, seen[text], text)
			seen[text] = true
		}
	})
}

func (c *cluster) storeText() string {
	c.Helper()
	list, err := c.client.CoordinationV1().Leases("ns").List(c.Context(), metav1.ListOptions{})
	require.NoError(c, err)
	text := fmt.Sprint(c.data())
	for _, l := range list.Items {
		text += l.Spec.String()
	}
	return text
}

func TestFullConfigMapIsAClearErrorAndLosesNothing(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		c.patchData("web-endpoints", fmt.Sprintf(`{"note":%q}`, strings.Repeat("x", 1<<20-150)))
		for range 7 { // longer than it takes to expire
			time.Sleep(interval)
			a.once(c) // what stands there can be refreshed
			err := b.ReconcileOnce(c.Context())
			require.ErrorIs(c, err, endpoints.ErrFull)
			assert.ErrorContains(c, err, "ConfigMap ns/web-endpoints")
			assert.ErrorContains(c, err, "of at most 1048576")
			c.requirePublished("10.0.0.1")
		}
		assert.Len(c, b.lastRound().Entries, 2, "it can be seen what fills it")
		assert.Len(c, b.told().malformed, 1)
		c.patchData("web-endpoints", `{"note":null}`)
		b.once(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
	})
}

// The ConfigMap contains data that instances do not count.
func TestConfigMapThatTheServerFindsFull(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		m, err := c.client.CoreV1().ConfigMaps("ns").Get(c.Context(), "web-endpoints", metav1.GetOptions{})
		require.NoError(c, err)
		m.BinaryData = map[string][]byte{"picture": make([]byte, 1<<20-150)}
		_, err = c.client.CoreV1().ConfigMaps("ns").Update(c.Context(), m, metav1.UpdateOptions{})
		require.NoError(c, err)
		for range 3 {
			time.Sleep(interval)
			a.once(c)
			err := b.ReconcileOnce(c.Context())
			require.ErrorIs(c, err, endpoints.ErrFull)
			assert.ErrorContains(c, err, "endpoints: refresh this instance's entry in ConfigMap ns/web-endpoints: "+
				"endpoints: the store is full")
			c.requirePublished("10.0.0.1")
		}
	})
}

// The first instance starts after all others have died, so no other instance makes room.
func TestConfigMapFullOfTheDeadIsEmptied(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		c.createConfigMap("web-endpoints", map[string]string{
			"ip-10-0-0-7-443": strings.Replace(deadEntry, "{", `{"padding":"`+strings.Repeat("x", 1<<20-250)+`",`, 1),
		})
		newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.Interval = expiry / 3 }).start(c)
		c.requirePublished()
		time.Sleep(expiry + 2*expiry/3)
		c.requirePublished("10.0.0.1")
	})
}

func TestConfigMapStoreElsewhere(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.Store = endpoints.ConfigMapStore{Namespace: "other", Name: "registry"}
		}).once(c)
		m, err := c.client.CoreV1().ConfigMaps("other").Get(c.Context(), "registry", metav1.GetOptions{})
		require.NoError(c, err)
		assert.Contains(c, m.Data, "ip-10-0-0-1-443")
	})
}

// etcd refuses what the API server has accepted.
func TestRequestThatIsTooLargeIsOfAFullStore(t *testing.T) {
	client := fake.NewClientset(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-endpoints"}})
	client.PrependReactor("patch", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	})
	r, err := endpoints.New(client, validConfig())
	require.NoError(t, err)
	require.ErrorIs(t, r.ReconcileOnce(t.Context()), endpoints.ErrFull)
}
