package apisim_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// contentTypes are those of the answers that clients of a connection get.
func contentTypes(t *testing.T, connection *apisim.Client, use func(*rest.Config)) (all []string) {
	config := connection.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			require.NoError(t, err)
			all = append(all, answer.Header.Get("Content-Type"))
			return answer, err
		})
	})
	use(config)
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestClientsGetTheEncodingThatTheyPrefer(t *testing.T) {
	widgets := corev1.SchemeGroupVersion.WithResource("widgets")
	server := apisim.NewServer(apisim.Resource{GroupVersionResource: widgets, Kind: "Widget", Namespaced: true})
	typed := func(config *rest.Config) {
		configMaps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("ns")
		_, _ = configMaps.Create(t.Context(), named("a"), metav1.CreateOptions{}) // or it exists
		_, err := configMaps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"b":"c"}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
		_, err = configMaps.Get(t.Context(), "none", metav1.GetOptions{})
		require.Error(t, err)
		w, err := configMaps.Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Equal(t, "c", (<-w.ResultChan()).Object.(*corev1.ConfigMap).Data["b"])
		w.Stop()
	}
	onlyMetadata := func(config *rest.Config) {
		list, err := metadata.NewForConfigOrDie(config).Resource(widgets).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, list.Items)
	}
	connection := server.Client("json")
	connection.PreferJSON()
	const inJSON, inProtobuf = "application/json", "application/vnd.kubernetes.protobuf"
	assert.Equal(t, []string{inJSON, inJSON, inJSON, inJSON}, contentTypes(t, connection, typed))
	assert.Equal(t, []string{inJSON}, contentTypes(t, connection, onlyMetadata))
	connection = server.Client("protobuf")
	assert.Equal(t, []string{inProtobuf, inProtobuf, inProtobuf, inProtobuf}, contentTypes(t, connection, typed))
	assert.Equal(t, []string{inProtobuf}, contentTypes(t, connection, onlyMetadata), "of a custom resource")
}

// Versions share values, and the server makes each from the one before.
func TestStoredVersionsDoNotChange(t *testing.T) {
	server := apisim.NewServer()
	type seen struct {
		version *apisim.Object
		content string
	}
	var history []seen
	server.Observe(func(c apisim.Change) {
		if c.After != nil {
			raw, _ := json.Marshal(c.After.Content())
			history = append(history, seen{c.After, string(raw)})
		}
	})
	for _, preferJSON := range []bool{false, true} {
		connection := server.Client("a")
		if preferJSON {
			connection.PreferJSON()
		}
		configMaps := kubernetes.NewForConfigOrDie(connection.Config()).CoreV1().ConfigMaps("ns")
		o := named("x")
		o.Labels, o.Annotations = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		o.Finalizers, o.Data = []string{"example.org/f"}, map[string]string{"e": "f"}
		o, err := configMaps.Create(t.Context(), o, metav1.CreateOptions{})
		require.NoError(t, err)
		o.Labels["a"] = "c"
		_, err = configMaps.Update(t.Context(), o, metav1.UpdateOptions{})
		require.NoError(t, err)
		for kind, patch := range map[types.PatchType]string{
			types.MergePatchType: `{"metadata":{"labels":{"a":"d","new":"x"},"annotations":{"c":null}},` +
				`"data":{"e":"g"}}`,
			types.JSONPatchType: `[{"op":"add","path":"/metadata/finalizers/0","value":"example.org/g"},` +
				`{"op":"copy","from":"/data","path":"/metadata/labels"},{"op":"remove","path":"/data/e"},` +
				`{"op":"replace","path":"/metadata/labels/e","value":"h"},` +
				`{"op":"move","from":"/metadata/finalizers/1","path":"/metadata/finalizers/0"}]`,
		} {
			_, err = configMaps.Patch(t.Context(), "x", kind, []byte(patch), metav1.PatchOptions{})
			require.NoError(t, err)
		}
		require.NoError(t, configMaps.Delete(t.Context(), "x", metav1.DeleteOptions{}), "begins")
		_, err = configMaps.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
	}
	require.Len(t, history, 2*5)
	for i, s := range history {
		raw, err := json.Marshal(s.version.Content())
		require.NoError(t, err)
		assert.JSONEq(t, s.content, string(raw), i)
	}
}
