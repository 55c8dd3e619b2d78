package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

func marked() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "x", UID: "u", ResourceVersion: "7", CreationTimestamp: metav1.Unix(1, 0),
			Labels: map[string]string{"app": "a", api.ShardLabel("r"): "s", api.SealLabel("r"): "1"},
			Annotations: map[string]string{
				api.RecordAnnotation("r", schema.GroupResource{Resource: "configmaps"}): "{}",
			},
		},
		Data: map[string]string{"key": "value", "items": "not a list"},
	}
}

func unmarked() *corev1.ConfigMap {
	m := marked()
	m.Labels, m.Annotations = map[string]string{"app": "a"}, nil
	return m
}

// encoded returns an object in each encoding, by its media type.
func encoded(t *testing.T, o runtime.Object) map[string][]byte {
	all := map[string][]byte{}
	for _, info := range scheme.Codecs.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf:
			var b bytes.Buffer
			require.NoError(t, info.Serializer.Encode(o, &b))
			all[info.MediaType] = b.Bytes()
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	all[runtime.ContentTypeCBOR], err = direct.Marshal(content)
	require.NoError(t, err)
	return all
}

// decoded is the reverse of encoded.
func decoded(t *testing.T, media string, data []byte, into runtime.Object) {
	if media == runtime.ContentTypeCBOR {
		var content map[string]any
		require.NoError(t, direct.Unmarshal(data, &content))
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, into))
		return
	}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	require.True(t, ok, media)
	_, _, err := info.Serializer.Decode(data, nil, into)
	require.NoError(t, err, media)
}

func TestMarksAreHiddenInEveryEncoding(t *testing.T) {
	for media, data := range encoded(t, marked()) {
		edited, err := codecOf(media).edit(data, hide)
		require.NoError(t, err, media)
		got := &corev1.ConfigMap{}
		decoded(t, media, edited, got)
		assert.Equal(t, unmarked(), got, media)
	}
	list := &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "c"},
		Items:    []corev1.ConfigMap{*marked(), *unmarked()},
	}
	for media, data := range encoded(t, list) {
		if media == runtime.ContentTypeYAML {
			continue // none is asked for
		}
		var edited bytes.Buffer
		require.NoError(t, codecOf(media).editList(&edited, bytes.NewReader(data), hide), media)
		got := &corev1.ConfigMapList{}
		decoded(t, media, edited.Bytes(), got)
		assert.Equal(t, "c", got.Continue, media)
		require.Len(t, got.Items, 2, media)
		for _, item := range got.Items {
			assert.Equal(t, unmarked().ObjectMeta, item.ObjectMeta, media)
			assert.Equal(t, unmarked().Data, item.Data, media)
		}
	}
}

func TestOwnersAreEditedInEveryEncoding(t *testing.T) {
	owners := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u"}}
	for media, data := range encoded(t, unmarked()) {
		for _, want := range [][]metav1.OwnerReference{owners, nil} {
			var err error
			data, err = codecOf(media).edit(data, func(m *objectMeta) error {
				m.owners = want
				return nil
			})
			require.NoError(t, err, media)
			got := &corev1.ConfigMap{}
			decoded(t, media, data, got)
			assert.Equal(t, want, got.OwnerReferences, media)
		}
	}
}

func TestMarksAreHiddenInTables(t *testing.T) {
	object, err := json.Marshal(marked())
	require.NoError(t, err)
	table := &metav1.Table{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"},
		Rows:     []metav1.TableRow{{Cells: []any{"x"}, Object: runtime.RawExtension{Raw: object}}},
	}
	data, err := json.Marshal(table)
	require.NoError(t, err)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeCBOR} {
		in := data
		if media == runtime.ContentTypeCBOR {
			var content any
			require.NoError(t, json.Unmarshal(data, &content))
			in, err = direct.Marshal(content)
			require.NoError(t, err)
		}
		one, err := codecOf(media).edit(in, hide)
		require.NoError(t, err)
		var list bytes.Buffer
		require.NoError(t, codecOf(media).editList(&list, bytes.NewReader(in), hide))
		for _, edited := range []string{string(one), list.String()} {
			assert.NotContains(t, edited, "bellwether.dev", media)
			assert.Contains(t, edited, "value", media)
		}
	}
}

func TestMarksAreHiddenInWatches(t *testing.T) {
	for media, data := range encoded(t, marked()) {
		if media == runtime.ContentTypeYAML {
			continue // no API server streams it
		}
		c := codecOf(media)
		var event []byte
		var err error
		switch media {
		case runtime.ContentTypeProtobuf:
			event, err = (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: data}}).Marshal()
		case runtime.ContentTypeCBOR:
			var object any
			require.NoError(t, direct.Unmarshal(data, &object))
			event, err = direct.Marshal(map[string]any{"type": "MODIFIED", "object": object})
		default:
			event, err = json.Marshal(metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: data}})
		}
		require.NoError(t, err)
		var in, out bytes.Buffer
		frames := c.framer().NewFrameWriter(&in)
		for range 3 {
			_, err := frames.Write(event)
			require.NoError(t, err)
		}
		require.NoError(t, editStream(&out, io.NopCloser(&in), c, hide))
		assert.NotContains(t, out.String(), "bellwether.dev", media)
		reader, buffer := c.framer().NewFrameReader(io.NopCloser(&out)), make([]byte, 64)
		for range 3 {
			n, err := readFrame(reader, &buffer)
			require.NoError(t, err, media)
			assert.Contains(t, string(buffer[:n]), "value", media)
		}
		_, err = readFrame(reader, &buffer)
		assert.ErrorIs(t, err, io.EOF)
	}
}

// What no codec can read is an error, whatever the bytes, and never a crash.
func TestMalformedBodiesAreErrors(t *testing.T) {
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeCBOR} {
		c := codecOf(media)
		for _, data := range [][]byte{
			nil,
			{0},
			[]byte("{"), []byte("k8s\x00"), []byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
			[]byte("[]"), []byte(`{"metadata":[]}`),
		} {
			_, _ = c.edit(data, hide)
			_, _ = c.editEvent(data, hide)
			_ = c.editList(io.Discard, bytes.NewReader(data), hide)
		}
	}
	for _, data := range []string{"{", "[]", `{"metadata":[]}`, `{"metadata":{"labels":[]}}`} {
		_, err := jsonCodec{}.edit([]byte(data), hide)
		assert.Error(t, err, data)
	}
}

func FuzzCodecs(f *testing.F) {
	f.Add([]byte("k8s\x00\x0a\x02\x0a\x00\x12\x03\x0a\x01\x00"))
	f.Add([]byte(`{"metadata":{"labels":{"a":"b"}}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		for _, c := range []codec{jsonCodec{}, protoCodec{}, cborCodec{}} {
			_, _ = c.edit(data, hide)
			_, _ = c.editEvent(data, hide)
			_ = c.editList(io.Discard, bytes.NewReader(data), hide)
		}
	})
}

// A list without its end must not pass for a whole one, because a program would take what is missing for deleted.
func TestAListThatIsCutOffIsAnError(t *testing.T) {
	list := &corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		Items:    []corev1.ConfigMap{*marked(), *marked()},
	}
	through := func(media string, from io.Reader) error {
		_, err := io.ReadAll(edited(io.NopCloser(from), func(to io.Writer) error {
			return codecOf(media).editList(to, from, hide)
		}))
		return err
	}
	for media, data := range encoded(t, list) {
		if media == runtime.ContentTypeYAML {
			continue // none is asked for
		}
		data = bytes.TrimSpace(data)
		broken := io.MultiReader(bytes.NewReader(data[:len(data)-1]), iotest.ErrReader(io.ErrUnexpectedEOF))
		require.ErrorIs(t, through(media, broken), io.ErrUnexpectedEOF, media)
		for n := range len(data) - 1 {
			if media == runtime.ContentTypeJSON { // which is edited while it comes
				require.Error(t, through(media, bytes.NewReader(data[:n])), "%d of %d bytes", n, len(data))
			}
		}
	}
}

// What has only marks has nothing without them.
func TestMetadataMayBeEmpty(t *testing.T) {
	for given, want := range map[string]string{
		`{"metadata":{"labels":%s}}`:                        `{"metadata":{}}`,
		`{"a\"b":1,"metadata":{"labels":%s,"c":{"<":">"}}}`: `{"a\"b":1,"metadata":{"c":{"<":">"}}}`,
	} {
		edited, err := jsonCodec{}.edit(fmt.Appendf(nil, given, `{"`+api.ShardLabel("r")+`":"a"}`), hide)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(edited))
	}
}

// A custom resource may be called Table, and have rows.
func TestACustomTableIsAnObject(t *testing.T) {
	table := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Table", "rows": []any{map[string]any{"object": map[string]any{}}},
		"metadata": map[string]any{"name": "x", "labels": map[string]any{api.ShardLabel("r"): "s"}},
	}
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeCBOR} {
		data, err := json.Marshal(table)
		if media == runtime.ContentTypeCBOR {
			data, err = direct.Marshal(table)
		}
		require.NoError(t, err)
		edited, err := codecOf(media).edit(data, hide)
		require.NoError(t, err)
		assert.NotContains(t, string(edited), "bellwether.dev", media)
	}
}

// An empty list may have no items, or null.
func TestListsMayBeEmpty(t *testing.T) {
	for _, data := range []string{
		`{}`, `{"kind":"FooList","items":null}`, `{"items":[],"kind":"FooList"}`, `{"kind":"Table","rows":null}`,
		`{"rows":[{"cells":["a"]},{"cells":["a"],"object":null}],"kind":"Table"}`,
	} {
		var out bytes.Buffer
		require.NoError(t, jsonCodec{}.editList(&out, strings.NewReader(data), hide), data)
		assert.JSONEq(t, data, out.String())
	}
	for _, data := range []string{`[]`, `{"items":{}}`, `{"items":7}`, `{"items":[7]}`, `{"rows":[7]}`} {
		assert.Error(t, jsonCodec{}.editList(io.Discard, strings.NewReader(data), hide), data)
	}
}

// A list of all objects takes the memory of one, not of all.
func TestAListIsPassedOnWhileItComes(t *testing.T) {
	from, list := io.Pipe()
	body := edited(from, func(to io.Writer) error { return jsonCodec{}.editList(to, from, hide) })
	object, err := json.Marshal(marked())
	require.NoError(t, err)
	go func() {
		_, _ = io.WriteString(list, `{"kind":"ConfigMapList","items":[`+string(object))
		for range 1000 {
			_, _ = io.WriteString(list, ","+string(object))
		}
	}()
	_, err = io.CopyN(io.Discard, body, 100_000) // although the list has no end yet
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.NoError(t, list.Close())
}
