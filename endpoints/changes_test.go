package endpoints

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// It removes more entries than one request may remove.
func TestRemovalBySeveralRequestsSaysAllThatItHasRemoved(t *testing.T) {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-endpoints"},
		Data:       map[string]string{"kept": "x"},
	}
	var keys []string
	for i := range maxRemovals + 1 {
		key := entryKey(netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i % 250)}), 443)
		m.Data[key], keys = "x", append(keys, key)
	}
	config := Config{Namespace: "ns", Service: "web"}
	s, _ := ConfigMapStore{}.withDefaults(config).open(fake.NewClientset(m), config)
	before, err := s.read(t.Context())
	require.NoError(t, err)
	next, removed, err := s.remove(t.Context(), before, keys)
	require.NoError(t, err)
	assert.Equal(t, keys, removed)
	assert.Len(t, next.entries, 1)
}

// It moves an endpoint between two existing slices, in both directions.
func TestWhatAddsAnEndpointIsWrittenFirst(t *testing.T) {
	endpoint := func(n byte, name string, number int32) Endpoint {
		return Endpoint{
			netip.AddrFrom4([4]byte{10, 0, 0, n}),
			Port{Name: name, Number: number, Protocol: corev1.ProtocolTCP},
		}
	}
	one := []Endpoint{
		endpoint(1, "https", 443), endpoint(2, "https", 443), endpoint(3, "https", 443),
		endpoint(3, "metrics", 9090),
	}
	two := []Endpoint{
		endpoint(1, "https", 443), endpoint(2, "https", 443), endpoint(2, "metrics", 9090),
		endpoint(3, "https", 443), endpoint(3, "metrics", 9090),
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	for _, move := range [][2][]Endpoint{{one, two}, {two, one}} {
		var standing []*discoveryv1.EndpointSlice
		for _, name := range slices.Sorted(maps.Keys(sliceSet(service, move[0]))) {
			standing = append(standing, sliceSet(service, move[0])[name])
		}
		all := changes(standing, sliceSet(service, move[1]))
		require.Len(t, all, 2)
		assert.Greater(t, len(all[0].after.Endpoints), len(all[0].before.Endpoints))
		assert.Less(t, len(all[1].after.Endpoints), len(all[1].before.Endpoints))
	}
}
