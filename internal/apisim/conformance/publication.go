package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/utils/ptr"
)

func (c *Clients) endpointSlices() discoveryclient.EndpointSliceInterface {
	return c.Typed.DiscoveryV1().EndpointSlices(c.Namespace)
}

func (c *Clients) createService(t *testing.T) *corev1.Service {
	t.Helper()
	service, err := c.Typed.CoreV1().Services(c.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: objectMeta(t, "", nil),
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return service
}

func newEndpointSlice(t *testing.T, suffix string, more labels, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: objectMeta(t, suffix, more), AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("https"), Port: ptr.To(int32(443)),
			Protocol: ptr.To(corev1.ProtocolTCP),
		}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return s
}

func (c *Clients) createSlice(t *testing.T, suffix string, more labels,
	addresses ...string,
) *discoveryv1.EndpointSlice {
	t.Helper()
	s, err := c.endpointSlices().Create(t.Context(), newEndpointSlice(t, suffix, more, addresses...),
		metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

// newEndpoints is of the deprecated kind, which some clients still read.
//
//nolint:staticcheck // see above
func newEndpoints(t *testing.T, addresses ...string) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{
		Name: "https", Port: 443,
		Protocol: corev1.ProtocolTCP,
	}}}
	for _, address := range addresses {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: address})
	}
	return &corev1.Endpoints{ObjectMeta: objectMeta(t, "", nil), Subsets: []corev1.EndpointSubset{subset}}
}

// publicationCases are about Services and what is published behind them.
func publicationCases() []Case {
	return []Case{
		{"get: a service's selector as it was set last", func(t *testing.T, c *Clients) {
			created := c.createService(t)
			services := c.Typed.CoreV1().Services(c.Namespace)
			got, err := services.Get(t.Context(), created.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created, got)
			assert.Empty(t, got.Spec.Selector)
			_, err = services.Patch(t.Context(), created.Name, types.MergePatchType,
				[]byte(`{"spec":{"selector":{"app":"web"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			got, err = services.Get(t.Context(), created.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"app": "web"}, got.Spec.Selector)
			assert.Equal(t, created.UID, got.UID)
		}},
		{"create: an endpoint slice is read as it was written", func(t *testing.T, c *Clients) {
			service := c.createService(t)
			s := newEndpointSlice(t, "", nil, "10.0.0.2", "10.0.0.1")
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: service.Name,
				UID: service.UID,
			}}
			created, err := c.endpointSlices().Create(t.Context(), s, metav1.CreateOptions{})
			require.NoError(t, err)
			got, err := c.endpointSlices().Get(t.Context(), s.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created, got)
			assert.Equal(t, s.Labels, got.Labels)
			assert.Equal(t, s.OwnerReferences, got.OwnerReferences)
			assert.Equal(t, s.AddressType, got.AddressType)
			assert.Equal(t, s.Ports, got.Ports)
			assert.Equal(t, s.Endpoints, got.Endpoints, "also in that order")
			_, err = c.endpointSlices().Create(t.Context(), s, metav1.CreateOptions{})
			refused(t, err, 409, metav1.StatusReasonAlreadyExists)
		}},
		{"update: a stale endpoint slice is a conflict and nothing changes", func(t *testing.T, c *Clients) {
			stale := c.createSlice(t, "", nil, "10.0.0.1")
			next := stale.DeepCopy()
			next.Endpoints[0].Addresses = []string{"10.0.0.2"}
			fresh, err := c.endpointSlices().Update(t.Context(), next, metav1.UpdateOptions{})
			require.NoError(t, err)
			newer(t, fresh.ResourceVersion, stale.ResourceVersion)
			stale.Endpoints = nil
			_, err = c.endpointSlices().Update(t.Context(), stale, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
			got, err := c.endpointSlices().Get(t.Context(), stale.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, fresh, got)
		}},
		{"update: an endpoint slice without a change stays", func(t *testing.T, c *Clients) {
			created := c.createSlice(t, "", nil, "10.0.0.1")
			updated, err := c.endpointSlices().Update(t.Context(), created, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, created, updated)
		}},
		{"update: an endpoint slice without resourceVersion is overwritten", func(t *testing.T, c *Clients) {
			created := c.createSlice(t, "", nil, "10.0.0.1")
			updated, err := c.endpointSlices().Update(t.Context(), newEndpointSlice(t, "", nil, "10.0.0.2"),
				metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, created.UID, updated.UID)
			assert.Equal(t, []string{"10.0.0.2"}, updated.Endpoints[0].Addresses)
		}},
		{"update: a deleted endpoint slice is not found", func(t *testing.T, c *Clients) {
			created := c.createSlice(t, "", nil, "10.0.0.1")
			require.NoError(t, c.endpointSlices().Delete(t.Context(), created.Name, metav1.DeleteOptions{}))
			_, err := c.endpointSlices().Update(t.Context(), created, metav1.UpdateOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"update: an endpoint slice may lose its last endpoint", func(t *testing.T, c *Clients) {
			s := c.createSlice(t, "", nil, "10.0.0.1")
			s.Endpoints = nil
			updated, err := c.endpointSlices().Update(t.Context(), s, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Empty(t, updated.Endpoints)
		}},
		{"delete: an endpoint slice only as it was read", func(t *testing.T, c *Clients) {
			stale := c.createSlice(t, "", nil, "10.0.0.1")
			next := stale.DeepCopy()
			next.Labels["more"] = "label"
			fresh, err := c.endpointSlices().Update(t.Context(), next, metav1.UpdateOptions{})
			require.NoError(t, err)
			as := func(s *discoveryv1.EndpointSlice) metav1.DeleteOptions {
				return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
					UID:             &s.UID,
					ResourceVersion: &s.ResourceVersion,
				}}
			}
			refused(t, c.endpointSlices().Delete(t.Context(), stale.Name, as(stale)), 409, metav1.StatusReasonConflict)
			require.NoError(t, c.endpointSlices().Delete(t.Context(), fresh.Name, as(fresh)))
			refused(t, c.endpointSlices().Delete(t.Context(), fresh.Name, as(fresh)), 404, metav1.StatusReasonNotFound)
		}},
		{"patch: merge replaces the endpoints of a slice", func(t *testing.T, c *Clients) {
			s := c.createSlice(t, "", labels{"old": "1"}, "10.0.0.1", "10.0.0.2")
			patched, err := c.endpointSlices().Patch(t.Context(), s.Name, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"old":null}},"endpoints":[{"addresses":["10.0.0.3"]}]}`),
				metav1.PatchOptions{})
			require.NoError(t, err)
			assert.Equal(t, []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.3"}}}, patched.Endpoints)
			assert.Equal(t, objectMeta(t, "", nil).Labels, patched.Labels)
			assert.Equal(t, s.Ports, patched.Ports)
		}},
		{"list: endpoint slices of a service and a manager", func(t *testing.T, c *Clients) {
			of := func(service, manager string) labels {
				return labels{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: manager}
			}
			mine := c.createSlice(t, "-mine", of(unique(t), "me"), "10.0.0.1")
			c.createSlice(t, "-other-manager", of(unique(t), "other"), "10.0.0.1")
			c.createSlice(t, "-other-service", of("other", "me"), "10.0.0.1")
			selector := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + unique(t) + "," +
				discoveryv1.LabelManagedBy + "=me"}
			list, err := c.endpointSlices().List(t.Context(), selector)
			require.NoError(t, err)
			assert.Equal(t, []discoveryv1.EndpointSlice{*mine}, list.Items)
			notOlder(t, list.ResourceVersion, mine.ResourceVersion)
		}},
		{"watch: endpoint slices come and go with their labels", func(t *testing.T, c *Clients) {
			list, err := c.endpointSlices().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			events := follow(t, c.endpointSlices(), metav1.ListOptions{
				LabelSelector: discoveryv1.LabelServiceName + "=" + unique(t), ResourceVersion: list.ResourceVersion,
			})
			c.createSlice(t, "-other", labels{discoveryv1.LabelServiceName: "other"}, "10.0.0.1")
			s := c.createSlice(t, "", nil, "10.0.0.1")
			for _, service := range []string{unique(t), "other"} {
				s.Labels[discoveryv1.LabelServiceName] = service
				s, err = c.endpointSlices().Update(t.Context(), s, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			events.expect("ADDED ", "DELETED ")
		}},
		{"update: missing endpoints are created", func(t *testing.T, c *Clients) {
			endpoints := c.Typed.CoreV1().Endpoints(c.Namespace)
			updated, err := endpoints.Update(t.Context(), newEndpoints(t, "10.0.0.1"), metav1.UpdateOptions{})
			require.NoError(t, err)
			got, err := endpoints.Get(t.Context(), updated.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, updated, got)
			assert.Equal(t, newEndpoints(t, "10.0.0.1").Subsets, got.Subsets)
		}},
		{"update: stale endpoints are a conflict", func(t *testing.T, c *Clients) {
			endpoints := c.Typed.CoreV1().Endpoints(c.Namespace)
			stale, err := endpoints.Create(t.Context(), newEndpoints(t, "10.0.0.1"), metav1.CreateOptions{})
			require.NoError(t, err)
			next := stale.DeepCopy()
			next.Subsets = newEndpoints(t, "10.0.0.1", "10.0.0.2").Subsets
			fresh, err := endpoints.Update(t.Context(), next, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, next.Subsets, fresh.Subsets)
			stale.Subsets = nil
			_, err = endpoints.Update(t.Context(), stale, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: deleted endpoints with resourceVersion and uid are a conflict", func(t *testing.T, c *Clients) {
			endpoints := c.Typed.CoreV1().Endpoints(c.Namespace)
			created, err := endpoints.Create(t.Context(), newEndpoints(t, "10.0.0.1"), metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, endpoints.Delete(t.Context(), created.Name, metav1.DeleteOptions{}))
			_, err = endpoints.Update(t.Context(), created, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
	}
}
