package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list lists ConfigMaps of the case.
func (c *Clients) list(t *testing.T, options metav1.ListOptions) *corev1.ConfigMapList {
	t.Helper()
	if options.LabelSelector == "" {
		options.LabelSelector = ofCase(t)
	}
	list, err := c.configMaps().List(t.Context(), options)
	require.NoError(t, err)
	return list
}

// five creates five ConfigMaps, not in the order of their names.
func (c *Clients) five(t *testing.T) {
	t.Helper()
	for _, suffix := range []string{"-c", "-a", "-e", "-b", "-d"} {
		c.createConfigMap(t, suffix, nil)
	}
}

func listCases() []Case {
	return []Case{
		{"list: objects come as they are, ordered by name", func(t *testing.T, c *Clients) {
			c.five(t)
			list := c.list(t, metav1.ListOptions{})
			assert.Equal(t, []string{"-a", "-b", "-c", "-d", "-e"}, suffixes(t, list.Items))
			assert.Empty(t, list.Continue)
			assert.Nil(t, list.RemainingItemCount)
			for _, item := range list.Items {
				assert.Equal(t, c.get(t, item.Name), &item)
			}
		}},
		{"list: resourceVersion is not before any item's", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			list := c.list(t, metav1.ListOptions{})
			require.Len(t, list.Items, 1)
			assert.Equal(t, created.ResourceVersion, list.Items[0].ResourceVersion)
			notOlder(t, list.ResourceVersion, created.ResourceVersion)
		}},
		{"list: nothing selected is an empty list with a resourceVersion", func(t *testing.T, c *Clients) {
			list := c.list(t, metav1.ListOptions{})
			assert.Empty(t, list.Items)
			assert.NotEmpty(t, list.ResourceVersion)
			assert.NotEqual(t, "0", list.ResourceVersion)
		}},
		{"list: a namespace that does not exist is empty", func(t *testing.T, c *Clients) {
			list, err := c.Typed.CoreV1().ConfigMaps("nowhere").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, list.Items)
			assert.NotEmpty(t, list.ResourceVersion)
		}},
		{"list: all namespaces, ordered by namespace and name", func(t *testing.T, c *Clients) {
			var want []string
			for _, namespace := range []string{c.Namespace, c.otherNamespace(t)} {
				for _, suffix := range []string{"-b", "-a"} {
					_, err := c.Typed.CoreV1().ConfigMaps(namespace).Create(t.Context(), newConfigMap(t, suffix, nil),
						metav1.CreateOptions{})
					require.NoError(t, err)
				}
				if block := []string{namespace + " -a", namespace + " -b"}; len(want) > 0 && namespace < c.Namespace {
					want = append(block, want...)
				} else {
					want = append(want, block...)
				}
			}
			list, err := c.Typed.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{LabelSelector: ofCase(t)})
			require.NoError(t, err)
			var got []string
			for i := range list.Items {
				got = append(got, list.Items[i].Namespace+" "+suffix(t, &list.Items[i]))
			}
			assert.Equal(t, want, got)
		}},
		{"list: metadata only", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", labels{"key": "value"})
			list, err := c.metadata(configMapResource).List(t.Context(), metav1.ListOptions{LabelSelector: ofCase(t)})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.Equal(t, created.ObjectMeta, list.Items[0].ObjectMeta)
			assert.NotEmpty(t, list.ResourceVersion)
		}},
		{"list: the dynamic client gets kinds", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			list, err := c.Dynamic.Resource(configMapResource).Namespace(c.Namespace).List(t.Context(),
				metav1.ListOptions{LabelSelector: ofCase(t)})
			require.NoError(t, err)
			assert.Equal(t, "ConfigMapList", list.GetKind())
			require.Len(t, list.Items, 1)
			assert.Equal(t, "ConfigMap", list.Items[0].GetKind())
			assert.Equal(t, "v1", list.Items[0].GetAPIVersion())
			assert.Equal(t, created.UID, list.Items[0].GetUID())
		}},
		{"list: resourceVersion 0 is some state, here a fresh one", func(t *testing.T, c *Clients) {
			c.five(t)
			c.now(t)
			assert.Len(t, c.list(t, metav1.ListOptions{ResourceVersion: "0"}).Items, 5)
		}},
		{"list: resourceVersion 0 has no pages", func(t *testing.T, c *Clients) {
			c.five(t)
			c.now(t)
			list := c.list(t, metav1.ListOptions{ResourceVersion: "0", Limit: 2})
			assert.Len(t, list.Items, 5)
			assert.Empty(t, list.Continue)
		}},
		{"list: not older than a write includes the write", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchNotOlderThan} {
				list := c.list(t,
					metav1.ListOptions{ResourceVersion: created.ResourceVersion, ResourceVersionMatch: match})
				assert.Equal(t, []corev1.ConfigMap{*created}, list.Items)
			}
		}},
		{"list: exactly at a resourceVersion is what was then", func(t *testing.T, c *Clients) {
			before := c.createConfigMap(t, "", nil)
			c.put(t, before, "later")
			c.createConfigMap(t, "-later", nil)
			list := c.list(t,
				metav1.ListOptions{
					ResourceVersion:      before.ResourceVersion,
					ResourceVersionMatch: metav1.ResourceVersionMatchExact,
				})
			assert.Equal(t, []corev1.ConfigMap{*before}, list.Items)
			assert.Equal(t, before.ResourceVersion, list.ResourceVersion)
		}},
		{"list: a resourceVersion of the future times out", func(t *testing.T, c *Clients) {
			// The real server waits 3 s for it, and client-go would ask ten times.
			err := c.core().Get().Namespace(c.Namespace).Resource("configmaps").MaxRetries(0).
				Param("resourceVersion", c.now(t)+"000000").Do(t.Context()).Error()
			refused(t, err, 504, metav1.StatusReasonTimeout)
			assert.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge), "%v", err)
		}},
		{"list: a malformed resourceVersion is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().List(t.Context(), metav1.ListOptions{ResourceVersion: "malformed"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"list: resourceVersionMatch without resourceVersion is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().List(t.Context(),
				metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"list: pages have every item once", func(t *testing.T, c *Clients) {
			namespace := c.otherNamespace(t)
			for _, suffix := range []string{"-c", "-a", "-e", "-b", "-d"} {
				object := newLease(t)
				object.Name += suffix
				_, err := c.Typed.CoordinationV1().Leases(namespace).Create(t.Context(), object, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			options, resourceVersion := metav1.ListOptions{Limit: 2}, ""
			for _, page := range []struct {
				items     []string
				remaining int64
			}{{[]string{"-a", "-b"}, 3}, {[]string{"-c", "-d"}, 1}, {[]string{"-e"}, 0}} {
				list, err := c.Typed.CoordinationV1().Leases(namespace).List(t.Context(), options)
				require.NoError(t, err)
				assert.Equal(t, page.items, suffixes(t, list.Items))
				if resourceVersion == "" {
					resourceVersion = list.ResourceVersion
				}
				assert.Equal(t, resourceVersion, list.ResourceVersion)
				if page.remaining == 0 {
					assert.Empty(t, list.Continue)
					assert.Nil(t, list.RemainingItemCount)
				} else {
					assert.NotEmpty(t, list.Continue)
					assert.Equal(t, &page.remaining, list.RemainingItemCount)
				}
				options.Continue = list.Continue
			}
		}},
		{"list: a page that is exactly full is the last", func(t *testing.T, c *Clients) {
			configMaps := c.Typed.CoreV1().ConfigMaps(c.otherNamespace(t))
			for _, suffix := range []string{"-a", "-b"} {
				_, err := configMaps.Create(t.Context(), newConfigMap(t, suffix, nil), metav1.CreateOptions{})
				require.NoError(t, err)
			}
			list, err := configMaps.List(t.Context(), metav1.ListOptions{Limit: 2})
			require.NoError(t, err)
			assert.Len(t, list.Items, 2)
			assert.Empty(t, list.Continue)
		}},
		{"list: after a full page of a selection there may be an empty one", func(t *testing.T, c *Clients) {
			for suffix, color := range map[string]string{"-a": "red", "-b": "red", "-c": "blue"} {
				c.createConfigMap(t, suffix, labels{"color": color})
			}
			red := ofCase(t) + ",color=red"
			list := c.list(t, metav1.ListOptions{LabelSelector: red, Limit: 2})
			assert.Equal(t, []string{"-a", "-b"}, suffixes(t, list.Items))
			require.NotEmpty(t, list.Continue)
			list = c.list(t, metav1.ListOptions{LabelSelector: red, Limit: 2, Continue: list.Continue})
			assert.Empty(t, list.Items)
			assert.Empty(t, list.Continue)
		}},
		{"list: pages of a selection do not say how much remains", func(t *testing.T, c *Clients) {
			c.five(t)
			var got []string
			options := metav1.ListOptions{LabelSelector: ofCase(t), Limit: 2}
			for {
				list := c.list(t, options)
				assert.Nil(t, list.RemainingItemCount)
				got = append(got, suffixes(t, list.Items)...)
				if list.Continue == "" {
					break
				}
				assert.Len(t, list.Items, 2)
				options.Continue = list.Continue
			}
			assert.Equal(t, []string{"-a", "-b", "-c", "-d", "-e"}, got)
		}},
		{"list: pages are of one state", func(t *testing.T, c *Clients) {
			c.five(t)
			first := c.list(t, metav1.ListOptions{Limit: 2})
			c.createConfigMap(t, "-bb", nil)
			c.createConfigMap(t, "-dd", nil)
			c.put(t, c.get(t, unique(t)+"-d"), "later")
			c.remove(t, unique(t)+"-e")
			rest := c.list(t, metav1.ListOptions{Limit: 10, Continue: first.Continue})
			assert.Equal(t, []string{"-c", "-d", "-e"}, suffixes(t, rest.Items))
			assert.Equal(t, "value", rest.Items[1].Data["key"])
			assert.Equal(t, first.ResourceVersion, rest.ResourceVersion)
		}},
		{"list: a malformed continue token is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().List(t.Context(), metav1.ListOptions{Limit: 2, Continue: "malformed"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"list: a continue token with a resourceVersion is refused", func(t *testing.T, c *Clients) {
			c.five(t)
			first := c.list(t, metav1.ListOptions{Limit: 2})
			_, err := c.configMaps().List(t.Context(),
				metav1.ListOptions{Limit: 2, Continue: first.Continue, ResourceVersion: first.ResourceVersion})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
	}
}
