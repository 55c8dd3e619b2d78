package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// past creates five ConfigMaps and returns the first page of their list. Then it changes, deletes
// and creates some, and makes the server forget all of this.
func (c *Clients) past(t *testing.T) *corev1.ConfigMapList {
	t.Helper()
	c.five(t)
	first := c.list(t, metav1.ListOptions{Limit: 2})
	for _, suffix := range []string{"-aa", "-bb", "-dd"} {
		c.createConfigMap(t, suffix, nil)
	}
	c.put(t, c.get(t, unique(t)+"-d"), "later")
	c.remove(t, unique(t)+"-e")
	require.NoError(t, c.Compact(t.Context()))
	return first
}

// CompactionCases returns the table of the behaviour of a server that has forgotten.
func CompactionCases() []Case {
	return []Case{
		{"compact: the next page is refused, with a token to go on as things are now", func(t *testing.T, c *Clients) {
			first := c.past(t)
			_, err := c.configMaps().List(t.Context(),
				metav1.ListOptions{LabelSelector: ofCase(t), Limit: 2, Continue: first.Continue})
			refused(t, err, 410, metav1.StatusReasonExpired)
			var answer apierrors.APIStatus
			require.ErrorAs(t, err, &answer)
			require.NotEmpty(t, answer.Status().Continue)

			created := c.createConfigMap(t, "-bbb", nil)
			second := c.list(t, metav1.ListOptions{Limit: 2, Continue: answer.Status().Continue})
			assert.Equal(t, []string{"-bb", "-bbb"}, suffixes(t, second.Items))
			notOlder(t, second.ResourceVersion, created.ResourceVersion)

			// From here on the list is consistent again.
			c.remove(t, unique(t)+"-d")
			third := c.list(t, metav1.ListOptions{Continue: second.Continue})
			assert.Equal(t, []string{"-c", "-d", "-dd"}, suffixes(t, third.Items))
			assert.Equal(t, "later", third.Items[1].Data["key"])
			assert.Equal(t, second.ResourceVersion, third.ResourceVersion)
		}},
		{"compact: a list of the past is refused", func(t *testing.T, c *Clients) {
			first := c.past(t)
			for _, limit := range []int64{0, 2} {
				_, err := c.configMaps().List(t.Context(), metav1.ListOptions{
					ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
					Limit: limit,
				})
				refused(t, err, 410, metav1.StatusReasonExpired)
				var answer apierrors.APIStatus
				require.ErrorAs(t, err, &answer)
				assert.Empty(t, answer.Status().Continue)
			}
			list := c.list(t, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
			assert.Len(t, list.Items, 7, "not older")
		}},
		{"compact: a watch from the past is an event that says expired, and the end", func(t *testing.T, c *Clients) {
			first := c.past(t)
			for _, resourceVersion := range []string{first.ResourceVersion, "1"} {
				events := follow(t, c.configMaps(), metav1.ListOptions{ResourceVersion: resourceVersion})
				e := events.raw()
				assert.EqualValues(t, "ERROR", e.Type)
				status, ok := e.Object.(*metav1.Status)
				require.True(t, ok, "%T", e.Object)
				assert.Equal(t, metav1.StatusReasonExpired, status.Reason, "%v", status)
				assert.Equal(t, int32(410), status.Code)
				events.ends()
			}
			events := follow(t, c.configMaps(), metav1.ListOptions{LabelSelector: ofCase(t), ResourceVersion: c.now(t)})
			c.createConfigMap(t, "-new", nil)
			events.expect("ADDED -new")
		}},
	}
}
