package endpoints_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// kernel gives a name to one process at a time.
type kernel struct {
	mu    sync.Mutex
	taken map[string]bool
}

func (k *kernel) occupy(name string) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taken[name] {
		return nil, process.ErrLocked
	}
	if k.taken == nil {
		k.taken = map[string]bool{}
	}
	k.taken[name] = true
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.taken, name)
	}, nil
}

// of is a process of a Pod.
func (k *kernel) of(c *cluster, address, pod string, change func(*endpoints.Config)) *instance {
	c.Helper()
	i := newInstance(c, address, func(config *endpoints.Config) {
		config.PodUID = pod
		if change != nil {
			change(config)
		}
	})
	i.SetProcessLock(k.occupy)
	return i
}

func withPorts(ports ...endpoints.Port) func(*endpoints.Config) {
	return func(config *endpoints.Config) { config.Ports = ports }
}

var (
	http8080  = endpoints.Port{Name: "http", Number: 8080}
	other443  = endpoints.Port{Name: "other", Number: 443}
	https8443 = endpoints.Port{Name: "https", Number: 8443}
)

func TestEntriesOfAPredecessorAreRemovedAtOnce(t *testing.T) {
	for name, e := range map[string]struct {
		before, after []endpoints.Port
		address       string // after; default: the same
		want          []string
	}{
		"another port":   {[]endpoints.Port{https}, []endpoints.Port{https8443}, "", []string{"10.0.0.1:8443/https"}},
		"a smaller port": {[]endpoints.Port{https8443}, []endpoints.Port{https}, "", []string{"10.0.0.1:443/https"}},
		"one port less": {
			[]endpoints.Port{https, http8080},
			[]endpoints.Port{http8080},
			"",
			[]string{"10.0.0.1:8080/http"},
		},
		"one port more": {
			[]endpoints.Port{http8080},
			[]endpoints.Port{https, http8080},
			"",
			[]string{"10.0.0.1:443/https", "10.0.0.1:8080/http"},
		},
		"another name": {[]endpoints.Port{https}, []endpoints.Port{other443}, "", []string{"10.0.0.1:443/other"}},
		"another address": {
			[]endpoints.Port{https},
			[]endpoints.Port{https},
			"10.0.0.4",
			[]string{"10.0.0.4:443/https"},
		},
		"names swapped": {
			[]endpoints.Port{https, http8080},
			[]endpoints.Port{{Name: "http", Number: 443}, {Name: "https", Number: 8080}},
			"",
			[]string{"10.0.0.1:443/http", "10.0.0.1:8080/https"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				var k kernel
				other, address := newInstance(c, "10.0.0.2", nil).start(c), cmp.Or(e.address, "10.0.0.1")
				_ = k.of(c, "10.0.0.1", "pod-1", withPorts(e.before...)).start(c).die()
				after := k.of(c, address, "pod-1", withPorts(e.after...)).start(c)
				want := slices.Concat(e.want, []string{"10.0.0.2"})
				c.requirePublished(want...)
				time.Sleep(2 * interval)
				c.requirePublished(want...)
				assert.Empty(c, other.told().expired)
				assert.Empty(c, after.told().expired)
				for _, round := range after.told().rounds {
					assert.NoError(c, round.Err)
				}
				require.NoError(c, after.stop())
				c.requirePublished("10.0.0.2")
				assert.Len(c, c.keys(), 1)
			})
		})
	}
}

func TestRemovalOfAPredecessorIsReported(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		_ = k.of(c, "10.0.0.1", "pod-1", nil).start(c).die()
		i := k.of(c, "10.0.0.1", "pod-1", withPorts(https8443))
		i.once(c)
		assert.Equal(c, 1, i.lastRound().Removals)
		assert.Contains(c, strings.Join(i.told().events, "\n"), "Normal web EndpointWithdrawn 10.0.0.1:443 withdrawn")
		assert.Equal(c, 1, i.logs.FilterMessage("withdrawn").Len())
	})
}

func TestPredecessorOfOneThatIsNotReadyIsRemovedAtOnce(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		_ = k.of(c, "10.0.0.1", "pod-1", nil).start(c).die()
		i := k.of(c, "10.0.0.1", "pod-1", withPorts(https8443))
		i.setReady(errUnwell)
		i.start(c)
		c.requirePublished()
		assert.Empty(c, c.keys())
	})
}

// An instance starts on the address of another one that is not proven to have ended.
func TestNothingButAProvedPredecessorIsRemoved(t *testing.T) {
	for name, e := range map[string]struct {
		before, after string // incarnations
		occupy        func(string) (func(), error)
	}{
		"another Pod of the host's network": {before: "pod-1", after: "pod-2"},
		"neither has said":                  {},
		"the first has not said":            {after: "pod-1"},
		"the second has not said":           {before: "pod-1"},
		"not on Linux": {before: "pod-1", after: "pod-1", occupy: func(string) (func(), error) {
			return nil, errors.ErrUnsupported
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				var k kernel
				before := k.of(c, "10.0.0.1", e.before, nil).start(c)
				after := k.of(c, "10.0.0.1", e.after, withPorts(https8443))
				if e.occupy != nil {
					after.SetProcessLock(e.occupy)
				}
				after.start(c)
				for range 12 {
					c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
					time.Sleep(interval)
				}
				_ = before.die()
				time.Sleep(expiry - 3*interval)
				c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
				time.Sleep(5 * interval)
				c.requirePublished("10.0.0.1:8443/https")
			})
		})
	}
}

// Both have the same Incarnation. The second one can claim it once the first has ended.
func TestTwoProcessesOfOnePodAreBothPublished(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		first := k.of(c, "10.0.0.1", "pod-1", nil).start(c)
		second := k.of(c, "10.0.0.1", "pod-1", withPorts(https8443)).start(c)
		for range 12 {
			c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
			time.Sleep(interval)
		}
		assert.Equal(c, 1, second.logs.FilterMessageSnippet("entries of an earlier process of this Pod stay").Len())
		_ = second.die() // its entry proves nothing to the first one's successor
		_ = first.die()
		third := k.of(c, "10.0.0.1", "pod-1", withPorts(http8080)).start(c)
		c.requirePublished("10.0.0.1:8443/https", "10.0.0.1:8080/http")
		require.NoError(c, third.stop())
		c.requirePublished("10.0.0.1:8443/https")
	})
}

// The survivor claims the name once the other has ended.
func TestSurvivorOfTwoProcessesRemovesTheOther(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		first := k.of(c, "10.0.0.1", "pod-1", nil).start(c)
		k.of(c, "10.0.0.1", "pod-1", withPorts(https8443)).start(c)
		c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
		_ = first.die()
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1:8443/https")
	})
}

// Another instance now has the address and port of the predecessor.
func TestEntryThatAnotherInstanceHasTakenOverIsNotRemoved(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		_ = k.of(c, "10.0.0.1", "pod-1", nil).start(c).die()
		other := k.of(c, "10.0.0.1", "pod-2", nil)
		after := k.of(c, "10.0.0.1", "pod-1", withPorts(https8443))
		// Of the round's requests the fifth is the removal.
		slowly(c, after, func() error { return after.ReconcileOnce(c.Context()) }, func() { other.once(c) })
		c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
		assert.Zero(c, after.lastRound().Removals)
	})
}

// The older version overwrites an entry, and keeps the fields that it does not know.
func TestEntryOfAnOlderVersionIsNoPredecessor(t *testing.T) {
	inConfigMap(t, func(c *cluster) {
		var k kernel
		_ = k.of(c, "10.0.0.1", "pod-1", nil).start(c).die()
		entry := map[string]any{}
		require.NoError(c, json.Unmarshal([]byte(c.data()["ip-10-0-0-1-443"]), &entry))
		require.Equal(c, map[string]any{"name": "pod-1", "creationTimestamp": entry["creationTimestamp"]},
			entry["incarnation"])
		entry["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		text, err := json.Marshal(entry)
		require.NoError(c, err)
		c.patchData("web-endpoints", `{"ip-10-0-0-1-443":`+quote(string(text))+`}`)
		k.of(c, "10.0.0.1", "pod-1", withPorts(https8443)).once(c)
		c.requirePublished("10.0.0.1", "10.0.0.1:8443/https")
	})
}

// It needs no proof: the same address and port have the same entry.
func TestRestartWithAnotherNameOrProtocol(t *testing.T) {
	for name, port := range map[string]endpoints.Port{
		"name":     {Name: "other", Number: 443},
		"protocol": {Name: "https", Number: 443, Protocol: corev1.ProtocolUDP},
		"hint":     {Name: "https", Number: 443, AppProtocol: "kubernetes.io/h2c"},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				newInstance(c, "10.0.0.2", nil).start(c)
				_ = newInstance(c, "10.0.0.1", nil).start(c).die()
				c.requirePublished("10.0.0.1", "10.0.0.2")
				newInstance(c, "10.0.0.1", withPorts(port)).start(c)
				c.requirePublished("10.0.0.1:443/"+port.Name, "10.0.0.2")
				for _, s := range c.slices() {
					if s.Endpoints[0].Addresses[0] == "10.0.0.1" {
						assert.Equal(c, port.Number, *s.Ports[0].Port)
						assert.NotContains(c, s.Endpoints, "10.0.0.2")
					}
				}
			})
		})
	}
}

// Only what is published is left of the earlier process.
func TestRestartWithAnotherNameAfterTheStoreWasLost(t *testing.T) {
	inBoth(t, func(c *cluster) {
		_ = newInstance(c, "10.0.0.1", nil).start(c).die()
		c.loseStore()
		newInstance(c, "10.0.0.1", withPorts(other443)).start(c)
		c.requirePublished("10.0.0.1:443/other")
	})
}

func TestIncarnationOfAnInstanceWithSeveralAddresses(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var k kernel
		both := func(config *endpoints.Config) {
			config.Addresses = append(config.Addresses, netip.MustParseAddr("2001:db8::1"))
		}
		_ = k.of(c, "10.0.0.1", "pod-1", both).start(c).die()
		c.requirePublished("10.0.0.1", "2001:db8::1")
		k.of(c, "2001:db8::1", "pod-1", nil).start(c)
		c.requirePublished("2001:db8::1")
	})
}
