package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func TestDeletionsAreOfOneObject(t *testing.T) {
	given := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(7)), DryRun: []string{"All"}}
	protobuf, err := given.Marshal()
	require.NoError(t, err)
	envelope, err := (&runtime.Unknown{
		TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Raw: protobuf,
	}).Marshal()
	require.NoError(t, err)
	cbor, err := direct.Marshal(given)
	require.NoError(t, err)
	for name, c := range map[string]struct{ query, contentType, body string }{
		"query":            {"gracePeriodSeconds=7&dryRun=All", "", ""},
		"JSON":             {"gracePeriodSeconds=9", "application/json", `{"gracePeriodSeconds":7,"dryRun":["All"]}`},
		"YAML":             {"", "application/yaml", "gracePeriodSeconds: 7\ndryRun: [All]\n"},
		"Protocol Buffers": {"", "application/vnd.kubernetes.protobuf", string(magic) + string(envelope)},
		"CBOR":             {"", "application/cbor", string(cbor)},
	} {
		r, err := http.NewRequest(http.MethodDelete, "http://x/api/v1/namespaces/ns/pods/p?"+c.query,
			bytes.NewReader([]byte(c.body)))
		require.NoError(t, err)
		if c.contentType != "" {
			r.Header.Set("Content-Type", c.contentType)
		}
		r, err = deletionOf(r, []byte(c.body), "u")
		require.NoError(t, err, name)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"), name)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		var options metav1.DeleteOptions
		require.NoError(t, json.Unmarshal(body, &options))
		want := given
		want.Preconditions = &metav1.Preconditions{UID: ptr.To(types.UID("u"))}
		assert.Equal(t, want, options, name)
	}

	r, err := http.NewRequest(http.MethodDelete, "http://x/", nil)
	require.NoError(t, err)
	_, err = deletionOf(r, []byte("k8s"), "u")
	assert.Error(t, err)
	r, err = deletionOf(r, []byte(`{"preconditions":{"uid":"other"}}`), "u")
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	assert.JSONEq(t, `{"preconditions":{"uid":"other"}}`, string(body), "the program names one itself")
}
