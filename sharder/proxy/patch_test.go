package proxy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var present = objectMeta{
	uid: "u", resourceVersion: "7", labels: map[string]string{"app": "a", "shard.bellwether.dev/r": "s"},
	annotations: map[string]string{"owner.pods.bellwether.dev/r": "{}"},
}

// ofUID adds the UID to a patch.
func ofUID(t *testing.T, patch string) string {
	t.Helper()
	var decoded map[string]any
	require.NoError(t, json.Unmarshal([]byte(patch), &decoded))
	if decoded["metadata"] == nil {
		decoded["metadata"] = map[string]any{}
	}
	decoded["metadata"].(map[string]any)["uid"] = "u"
	encoded, err := json.Marshal(decoded)
	require.NoError(t, err)
	return string(encoded)
}

func TestMergePatchesKeepTheMarks(t *testing.T) {
	for _, c := range []struct {
		patch, want string
		pinned      bool
	}{
		{`{"spec":{"a":null}}`, `{"spec":{"a":null}}`, false},
		{`{"metadata":{"labels":{"app":"b"}}}`, `{"metadata":{"labels":{"app":"b"}}}`, false},
		{
			`{"metadata":{"labels":{"app":"b","shard.bellwether.dev/r":null}}}`,
			`{"metadata":{"labels":{"app":"b"}}}`, false,
		},
		{
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"]}}`,
			`{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"]}}`, false,
		},
		{`{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"app":null},"resourceVersion":"7"}}`, true},
		{`{"metadata":{"annotations":null}}`, `{"metadata":{"annotations":{},"resourceVersion":"7"}}`, true},
		{
			`{"metadata":{"labels":null,"resourceVersion":"5"}}`,
			`{"metadata":{"labels":{"app":null},"resourceVersion":"5"}}`, false,
		},
	} {
		got, pinned, err := keepInMergePatch([]byte(c.patch), present)
		require.NoError(t, err, c.patch)
		assert.JSONEq(t, ofUID(t, c.want), string(got), c.patch)
		assert.Equal(t, c.pinned, pinned, c.patch)
	}
	for _, patch := range []string{
		`[]`, `{"metadata":null}`, `{"metadata":{"labels":[]}}`, `{"metadata":{"labels":{"$patch":"replace"}}}`,
		`{"metadata":{"$patch":"replace","name":"x"}}`, `{"metadata":{"$retainKeys":["name"]}}`, `{"$patch":"replace"}`,
	} {
		_, _, err := keepInMergePatch([]byte(patch), present)
		assert.Error(t, err, patch)
	}
}

func TestJSONPatchesKeepTheMarks(t *testing.T) {
	const test = `{"op":"test","path":"/metadata/resourceVersion","value":"7"}`
	for _, c := range []struct {
		patch, want string
		pinned      bool
	}{
		{`[{"op":"add","path":"/spec/a","value":1}]`, `[{"op":"add","path":"/spec/a","value":1}]`, false},
		{
			`[{"op":"remove","path":"/metadata/labels/shard.bellwether.dev~1r"},{"op":"remove","path":"/spec/a"}]`,
			`[{"op":"remove","path":"/spec/a"}]`, false,
		},
		{`[{"op":"add","path":"/metadata/labels/drain.bellwether.dev~1r","value":"y"}]`, `[]`, false},
		{
			`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
			`[{"op":"add","path":"/metadata/labels/x","value":"y"}]`, false,
		},
		{
			`[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
			`[` + test + `,{"op":"add","path":"/metadata/labels","value":{"shard.bellwether.dev/r":"s"}},` +
				`{"op":"add","path":"/metadata/labels/x","value":"y"}]`, true,
		},
		{
			`[{"op":"remove","path":"/metadata/annotations"}]`,
			`[` + test + `,{"op":"replace","path":"/metadata/annotations",` +
				`"value":{"owner.pods.bellwether.dev/r":"{}"}}]`,
			true,
		},
		{
			`[{"op":"test","path":"/metadata/labels","value":{"app":"a"}}]`,
			`[` + test + `,{"op":"test","path":"/metadata/labels","value":{"app":"a","shard.bellwether.dev/r":"s"}}]`,
			true,
		},
	} {
		got, pinned, err := keepInJSONPatch([]byte(c.patch), present)
		require.NoError(t, err, c.patch)
		want := strings.Replace(c.want, "[", `[{"op":"test","path":"/metadata/uid","value":"u"},`, 1)
		assert.JSONEq(t, strings.Replace(want, ",]", "]", 1), string(got), c.patch)
		assert.Equal(t, c.pinned, pinned, c.patch)
	}
	for _, patch := range []string{
		`{}`, `[{"op":"replace","path":"/metadata","value":{}}]`,
		`[{"op":"move","from":"/a","path":"/metadata/labels"}]`,
		`[{"op":"add","path":"/metadata/labels","value":1}]`,
		`[{"op":"copy","from":"/metadata/labels/shard.bellwether.dev~1r","path":"/metadata/labels/x"}]`,
		`[{"op":"copy","from":"/metadata/labels","path":"/spec/labels"}]`,
		`[{"op":"move","from":"/metadata/annotations","path":"/spec/x"}]`,
		`[{"op":"move","from":"/metadata/labels/x","path":"/metadata/labels/shard.bellwether.dev~1r"}]`,
	} {
		_, _, err := keepInJSONPatch([]byte(patch), present)
		assert.Error(t, err, patch)
	}
}
