package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func selectorCases() []Case {
	cases := []Case{
		{"select: a malformed label selector is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().List(t.Context(), metav1.ListOptions{LabelSelector: "color in red"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"select: a malformed label selector is refused for watches", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Watch(t.Context(), metav1.ListOptions{LabelSelector: "color in red"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"select: by name", func(t *testing.T, c *Clients) {
			c.five(t)
			list := c.list(t, metav1.ListOptions{FieldSelector: named(unique(t) + "-b")})
			assert.Equal(t, []string{"-b"}, suffixes(t, list.Items))
			assert.Empty(t, c.list(t, metav1.ListOptions{FieldSelector: named(unique(t))}).Items)
		}},
		{"select: by name and labels", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", labels{"color": "red"})
			assert.Len(t,
				c.list(t, metav1.ListOptions{FieldSelector: named(object.Name), LabelSelector: "color=red"}).Items, 1)
			assert.Empty(t,
				c.list(t, metav1.ListOptions{FieldSelector: named(object.Name), LabelSelector: "color=blue"}).Items)
		}},
		{"select: by another name", func(t *testing.T, c *Clients) {
			c.five(t)
			list := c.list(t, metav1.ListOptions{FieldSelector: "metadata.name!=" + unique(t) + "-b"})
			assert.Equal(t, []string{"-a", "-c", "-d", "-e"}, suffixes(t, list.Items))
		}},
		{"select: by namespace", func(t *testing.T, c *Clients) {
			here := c.createConfigMap(t, "", nil)
			_, err := c.Typed.CoreV1().ConfigMaps(c.otherNamespace(t)).Create(t.Context(), newConfigMap(t, "", nil),
				metav1.CreateOptions{})
			require.NoError(t, err)
			list, err := c.Typed.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{
				LabelSelector: ofCase(t), FieldSelector: "metadata.namespace=" + c.Namespace,
			})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.Equal(t, here.UID, list.Items[0].UID)
		}},
		{"select: by name in all namespaces", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			_, err := c.Typed.CoreV1().ConfigMaps(c.otherNamespace(t)).Create(t.Context(), newConfigMap(t, "", nil),
				metav1.CreateOptions{})
			require.NoError(t, err)
			list, err := c.Typed.CoreV1().ConfigMaps("").List(t.Context(),
				metav1.ListOptions{FieldSelector: named(object.Name)})
			require.NoError(t, err)
			assert.Len(t, list.Items, 2)
		}},
		{"select: another field is refused", func(t *testing.T, c *Clients) {
			for _, selector := range []string{"data.key=value", "metadata.uid=1"} {
				_, err := c.configMaps().List(t.Context(), metav1.ListOptions{FieldSelector: selector})
				refused(t, err, 400, metav1.StatusReasonBadRequest)
				_, err = c.leases().List(t.Context(), metav1.ListOptions{FieldSelector: selector})
				refused(t, err, 400, metav1.StatusReasonBadRequest)
			}
		}},
		{"select: another field is refused for watches", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Watch(t.Context(), metav1.ListOptions{FieldSelector: "data.key=value"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"select: a malformed field selector is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name"})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
	}
	for _, selection := range []struct {
		selector string
		want     []string
	}{
		{"color=red", []string{"-red", "-redbig"}},
		{"color==red", []string{"-red", "-redbig"}},
		{"color!=red", []string{"-big", "-blue", "-empty", "-none"}},
		{"color in (red,blue)", []string{"-blue", "-red", "-redbig"}},
		{"color in (green)", []string{}},
		{"color in (,blue)", []string{"-blue", "-empty"}},
		{"color notin (red,blue)", []string{"-big", "-empty", "-none"}},
		{"color", []string{"-blue", "-empty", "-red", "-redbig"}},
		{"!color", []string{"-big", "-none"}},
		{"color=", []string{"-empty"}},
		{"color=red,size=big", []string{"-redbig"}},
		{"color,!size", []string{"-blue", "-empty", "-red"}},
		{"color!=red,size", []string{"-big"}},
		{"!color,!size", []string{"-none"}},
	} {
		cases = append(cases, Case{"select: " + selection.selector, func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "-red", labels{"color": "red"})
			c.createConfigMap(t, "-blue", labels{"color": "blue"})
			c.createConfigMap(t, "-empty", labels{"color": ""})
			c.createConfigMap(t, "-redbig", labels{"color": "red", "size": "big"})
			c.createConfigMap(t, "-big", labels{"size": "big"})
			c.createConfigMap(t, "-none", nil)
			list := c.list(t, metav1.ListOptions{LabelSelector: ofCase(t) + "," + selection.selector})
			assert.Equal(t, selection.want, suffixes(t, list.Items))
		}})
	}
	return cases
}
