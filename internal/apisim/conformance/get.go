package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func getCases() []Case {
	return []Case{
		{"get: what does not exist is not found, by name and resource", func(t *testing.T, c *Clients) {
			_, err := c.leases().Get(t.Context(), unique(t), metav1.GetOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
			var answer apierrors.APIStatus
			require.ErrorAs(t, err, &answer)
			assert.Equal(t, &metav1.StatusDetails{Name: unique(t), Group: "coordination.k8s.io", Kind: "leases"},
				answer.Status().Details)
		}},
		{"get: the metadata client gets the same", func(t *testing.T, c *Clients) {
			_, err := c.metadata(leaseResource).Get(t.Context(), unique(t), metav1.GetOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"get: the latest write is returned", func(t *testing.T, c *Clients) {
			updated := c.put(t, c.createConfigMap(t, "", nil), "later")
			assert.Equal(t, updated, c.get(t, updated.Name))
		}},
		{"get: metadata of a config map", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			got, err := c.metadata(configMapResource).Get(t.Context(), created.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created.ObjectMeta, got.ObjectMeta)
		}},
		{"get: metadata of a lease", func(t *testing.T, c *Clients) {
			created, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			got, err := c.metadata(leaseResource).Get(t.Context(), created.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created.ObjectMeta, got.ObjectMeta)
		}},
		{"get: metadata comes without anything else", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			body, err := c.core().Get().Namespace(c.Namespace).Resource("configmaps").Name(created.Name).
				SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").DoRaw(t.Context())
			require.NoError(t, err)
			var fields map[string]any
			require.NoError(t, json.Unmarshal(body, &fields))
			assert.Equal(t, []string{"apiVersion", "kind", "metadata"}, slices.Sorted(maps.Keys(fields)))
			assert.Equal(t, "meta.k8s.io/v1", fields["apiVersion"])
			assert.Equal(t, "PartialObjectMetadata", fields["kind"])
		}},
	}
}
