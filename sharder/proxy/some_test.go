package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// Elsewhere, the program may write what it names, and has its own Secrets, but is not shown objects on which the
// other replicas would work, too.
func TestARingOfSomeNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 1)
		for _, namespace := range []string{"also", "elsewhere"} {
			meta := metav1.ObjectMeta{Name: "in-" + namespace}
			_, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta},
				metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = admin.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: meta},
				metav1.CreateOptions{})
			require.NoError(t, err)
		}
		a := joinAs(t, server, replica.Config{Identity: "a", Resources: []api.Resource{{
			GVR: configMaps, Children: []schema.GroupVersionResource{secrets}, Namespaces: []string{"default", "also"},
		}}}, nil)
		defer a.leave(t)
		settle()
		for _, path := range admin.sent("a", http.MethodGet) {
			assert.NotContains(t, []string{"/api/v1/configmaps", "/api/v1/secrets"}, path, "it needs no ClusterRole")
		}
		core := a.client.CoreV1()
		for namespace, want := range map[string]int{"default": 1, "also": 1, "elsewhere": 0, "": 2} {
			roots, err := core.ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, roots.Items, want, "roots in %q", namespace)
		}
		for namespace, want := range map[string]int{"also": 0, "elsewhere": 1, "": 0} {
			children, err := core.Secrets(namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, children.Items, want, "children in %q", namespace)
		}
		label := []byte(`{"metadata":{"labels":{"by":"the-program"}}}`)
		for _, namespace := range []string{"also", "elsewhere"} {
			_, err := core.ConfigMaps(namespace).Patch(t.Context(), "in-"+namespace, types.MergePatchType, label,
				metav1.PatchOptions{})
			assert.NoError(t, err)
			_, err = core.Secrets(namespace).Patch(t.Context(), "in-"+namespace, types.MergePatchType, label,
				metav1.PatchOptions{})
			assert.NoError(t, err)
		}
		require.NoError(t, core.ConfigMaps("elsewhere").DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{}))
		_, err := core.ConfigMaps("elsewhere").Get(t.Context(), "in-elsewhere", metav1.GetOptions{})
		assert.NoError(t, err, "what it is not shown is not deleted")
		got := a.ask(http.MethodPut, "/api/v1/configmaps/m0", "application/json", "{}")
		assert.Equal(t, http.StatusBadRequest, got.Code, "a namespace is missing")
	})
}

// Labels change, so a write that passed because an object is not selected could reach one that is another shard's by
// the time that it arrives.
func TestARingOfSelectedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, admin := newServer(t, 4)
		blue := labels.SelectorFromSet(labels.Set{"colour": "blue"})
		a := joinAs(t, server, replica.Config{Identity: "a", Resources: []api.Resource{{
			GVR: configMaps, Children: []schema.GroupVersionResource{secrets}, Selector: blue,
		}}}, nil)
		defer a.leave(t)
		settle()
		assert.Equal(t, []string{"m0", "m2"}, a.names(t))
		assert.Equal(t, map[string]string{"m0": "a", "m1": "", "m2": "a", "m3": ""}, admin.owners())
		maps := a.client.CoreV1().ConfigMaps("default")
		o, err := maps.Get(t.Context(), "m1", metav1.GetOptions{})
		require.NoError(t, err)
		_, err = maps.Update(t.Context(), o, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), err)
		assert.ErrorContains(t, err, "it is with no shard")
	})
}
