package handover_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

func encoded(t *testing.T, media string, o runtime.Object) string {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	require.True(t, ok)
	var text bytes.Buffer
	require.NoError(t, scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(o, &text))
	return text.String()
}

func answer(code int, media, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

const js = "application/json"

func TestVersionOfAnAnswer(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", ResourceVersion: "9", Labels: map[string]string{"a": "b"},
	}}
	leaving := pod.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	held := leaving.DeepCopy()
	held.Finalizers = []string{"example.com/f"}
	const proto = runtime.ContentTypeProtobuf
	updated, created := handover.Versions{"pods": "9"}, handover.Versions{"pods": "9"}
	unknown := handover.Versions{"pods": ""}
	for _, c := range []struct {
		name string
		resp *http.Response
		kind handover.Kind
		want handover.Versions
	}{
		{name: "JSON", resp: answer(200, js+"; charset=utf-8", encoded(t, js, pod)), want: updated},
		{name: "protobuf", resp: answer(200, proto, encoded(t, proto, pod)), want: updated},
		{name: "created", resp: answer(201, js, encoded(t, js, pod)), want: created},
		{name: "created, protobuf", resp: answer(201, proto, encoded(t, proto, pod)), want: created},
		{name: "deleted, with a finalizer", resp: answer(200, js, encoded(t, js, held)), want: updated},
		{name: "deleted, without one", resp: answer(200, js, encoded(t, js, leaving)), want: unknown},
		{name: "deleted, without one, protobuf", resp: answer(200, proto, encoded(t, proto, leaving)), want: unknown},
		{name: "a deletion", resp: answer(200, js, encoded(t, js, pod)), kind: handover.Deletion, want: unknown},
		{name: "a status", resp: answer(201, js, `{"kind":"Status","metadata":{}}`), want: unknown},
		{name: "a table", resp: answer(200, js, `{"kind":"Table","metadata":{"resourceVersion":"9"}}`), want: unknown},
		{name: "another media type", resp: answer(200, "application/cbor", encoded(t, js, pod)), want: unknown},
		{name: "no media type", resp: answer(200, "", encoded(t, js, pod)), want: unknown},
		{name: "broken", resp: answer(200, js, "{"), want: unknown},
		{name: "broken protobuf", resp: answer(200, proto, "k8s\x00\xff\xff"), want: unknown},
		{name: "no protobuf", resp: answer(200, proto, encoded(t, js, pod)), want: unknown},
		{name: "too large", resp: answer(200, js, `{"a":"`+strings.Repeat("a", 9<<20)+`"}`), want: unknown},
		{name: "accepted", resp: answer(202, js, encoded(t, js, pod)), want: unknown},
		{name: "elsewhere", resp: answer(307, js, encoded(t, js, pod)), want: unknown},
		{name: "a conflict", resp: answer(409, js, encoded(t, js, pod)), want: handover.Versions{}},
		{name: "a timeout", resp: answer(504, js, encoded(t, js, pod)), want: unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := io.ReadAll(c.resp.Body)
			require.NoError(t, err)
			c.resp.Body = io.NopCloser(bytes.NewReader(body))
			l := handover.NewLog(handover.Versions{})
			l.Begin(pods, c.kind).Answered(c.resp)
			assert.Equal(t, c.want, l.Versions())
			read, err := io.ReadAll(c.resp.Body)
			require.NoError(t, err)
			require.NoError(t, c.resp.Body.Close())
			assert.Equal(t, body, read)
		})
	}
}

// Only a creation is above all that was written before it.
func TestACreationIsNewerThanADeletion(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "9"}}
	for _, c := range []struct {
		name string
		code int
		kind handover.Kind
		want string
	}{
		{"created", 201, handover.Whole, "9"},
		{"updated", 200, handover.Whole, ""},
		{"a subresource created", 201, handover.Subresource, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := handover.NewLog(handover.Versions{})
			l.Begin(pods, handover.Deletion).Answered(answer(200, js, "{}"))
			resp := answer(c.code, js, encoded(t, js, pod))
			l.Begin(pods, c.kind).Answered(resp)
			assert.Equal(t, handover.Versions{"pods": c.want}, l.Versions())
		})
	}
}

// What a caller does with the answer does not matter.
func TestTheVersionOfAnAnswerThatIsNotReadIsKnown(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "9"}}
	l := handover.NewLog(handover.Versions{})
	resp := answer(200, js, encoded(t, js, pod))
	l.Begin(pods, handover.Whole).Answered(resp)
	assert.Equal(t, handover.Versions{"pods": "9"}, l.Versions())
	require.NoError(t, resp.Body.Close())
}

func TestAnAnswerThatIsCutOffIsUnknown(t *testing.T) {
	begin := []byte(`{"metadata":{"resourceVersion":"9"}`)
	l := handover.NewLog(handover.Versions{})
	broken := errors.New("broken")
	resp := answer(200, js, "")
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(begin), iotest.ErrReader(broken)))
	l.Begin(pods, handover.Whole).Answered(resp)
	assert.Equal(t, handover.Versions{"pods": ""}, l.Versions())
	read, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, broken)
	assert.Equal(t, begin, read)
}
