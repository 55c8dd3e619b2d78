package shardertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

var gadget = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}

// Server-side apply creates an object that is not there, and changes one that is.
func TestApplyCreates(t *testing.T) {
	ring := shardertest.New(t, shardertest.Config{
		Scheme: widgetScheme(t), Resources: ofRing, Kinds: []schema.GroupVersionKind{gadget},
	})
	generated := fake.NewSimpleClientset()
	ring.Serve(&generated.Fake)
	for name, client := range map[string]kubernetes.Interface{"client": ring.Client, "generated": generated} {
		t.Run(name, func(t *testing.T) {
			apply := func(key, value string) *corev1.Secret {
				secret, err := client.CoreV1().Secrets("default").Apply(t.Context(),
					applycorev1.Secret(name, "default").WithStringData(map[string]string{key: value}),
					metav1.ApplyOptions{FieldManager: "m"})
				require.NoError(t, err)
				return secret
			}
			created := apply("a", "1")
			assert.NotEmpty(t, created.UID)
			assert.Equal(t, "default", created.Namespace)
			assert.Equal(t, map[string]string{"a": "1"}, created.StringData)
			changed := apply("b", "2")
			assert.Equal(t, created.UID, changed.UID)
			assert.Equal(t, map[string]string{"a": "1", "b": "2"}, changed.StringData)
			seen, err := ring.Dynamic.Resource(secrets).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created.UID, seen.GetUID())
		})
	}
	for name, c := range map[string]struct {
		gvr  schema.GroupVersionResource
		kind schema.GroupVersionKind
	}{
		"a kind of Kubernetes": {secrets, corev1.SchemeGroupVersion.WithKind("Secret")},
		"a custom resource":    {widgets, widgets.GroupVersion().WithKind("Widget")},
		"one that has no type": {gadget.GroupVersion().WithResource("gadgets"), gadget},
	} {
		t.Run("dynamic, "+name, func(t *testing.T) {
			client := dynamic.Interface(ring.Dynamic).Resource(c.gvr).Namespace("default")
			apply := func(label string) *unstructured.Unstructured {
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(c.kind)
				o.SetName("dynamic")
				o.SetLabels(map[string]string{label: "x"})
				applied, err := client.Apply(t.Context(), "dynamic", o, metav1.ApplyOptions{FieldManager: "m"})
				require.NoError(t, err)
				return applied
			}
			created := apply("a")
			assert.NotEmpty(t, created.GetUID())
			assert.Equal(t, "default", created.GetNamespace())
			assert.Equal(t, c.kind, created.GroupVersionKind())
			changed := apply("b")
			assert.Equal(t, created.GetUID(), changed.GetUID())
			assert.Equal(t, map[string]string{"a": "x", "b": "x"}, changed.GetLabels())

			body := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"labels":{"c":"x"}}}`,
				c.gvr.GroupVersion().String(), c.kind.Kind)
			metadata := ring.Metadata.Resource(c.gvr).Namespace("default")
			patched, err := metadata.Patch(t.Context(), "dynamic", types.ApplyPatchType,
				body, metav1.PatchOptions{FieldManager: "m"})
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"a": "x", "b": "x", "c": "x"}, patched.Labels)
			patched, err = metadata.Patch(t.Context(), "new", types.ApplyPatchType,
				body, metav1.PatchOptions{FieldManager: "m"})
			require.NoError(t, err)
			assert.NotEmpty(t, patched.UID)
		})
	}
}
