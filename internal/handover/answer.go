package handover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxAnswer bounds the answers that are parsed, in bytes. The API server stores no larger objects
// by default; JSON may be larger than what is stored.
const maxAnswer = 8 << 20

// Answered notes the answer to the write. If the version of the write is in its body, Answered reads
// that first, so that the version is known whatever the caller does with the answer. The body can be
// read again.
func (w *Write) Answered(resp *http.Response) {
	if w == nil {
		return
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	parse := parsers[media]
	switch code := resp.StatusCode; {
	case code >= http.StatusInternalServerError: // etcd may commit it later
		w.Lost()
	case code >= http.StatusBadRequest:
		w.Refused()
	case code != http.StatusOK && code != http.StatusCreated, w.deletes, parse == nil, resp.Body == nil,
		resp.Header.Get("Content-Encoding") != "":
		w.Unseen()
	default:
		w.written(readAhead(resp), parse, code == http.StatusCreated)
	}
}

// readAhead reads the body of an answer, and puts a copy in its place. It returns nil if the body is
// too large or broken.
func readAhead(resp *http.Response) []byte {
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failed{err}
	}
	resp.Body = readBody{io.MultiReader(bytes.NewReader(read), rest), resp.Body}
	if err != nil || len(read) > maxAnswer {
		return nil
	}
	return read
}

// readBody is a body that was read ahead.
type readBody struct {
	io.Reader
	io.Closer
}

// failed is the rest of a body that could not be read.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// written notes the version of the object in an answer.
func (w *Write) written(text []byte, parse func([]byte) (head, error), created bool) {
	o, err := parse(text)
	switch {
	case err != nil, o.Metadata.ResourceVersion == "", o.Kind == "Table", o.removed():
		w.Unseen()
	case created && w.whole:
		w.Above(o.Metadata.ResourceVersion)
	default:
		w.Stored(o.Metadata.ResourceVersion)
	}
}

// head has what is read of an object.
type head struct {
	Kind     string
	Metadata struct {
		ResourceVersion   string
		DeletionTimestamp *metav1.Time
		Finalizers        []string
	}
}

// removed reports whether the object may be gone, because an update that removes the last finalizer
// of a deleted object deletes it, with another version than the answer's.
func (h head) removed() bool {
	return h.Metadata.DeletionTimestamp != nil && len(h.Metadata.Finalizers) == 0
}

var parsers = map[string]func([]byte) (head, error){
	runtime.ContentTypeJSON:     parseJSON,
	runtime.ContentTypeProtobuf: parseProtobuf,
}

func parseJSON(body []byte) (h head, err error) { return h, json.Unmarshal(body, &h) }

// protobufMagic begins an answer in protobuf. A [runtime.Unknown] follows, with the object in it.
var protobufMagic = []byte("k8s\x00")

// parseProtobuf relies on a convention of the Kubernetes API, that the metadata is field 1 of every
// object.
func parseProtobuf(body []byte) (h head, err error) {
	text, ok := bytes.CutPrefix(body, protobufMagic)
	if !ok {
		return h, fmt.Errorf("protobuf: begins with %q", body[:min(len(body), len(protobufMagic))])
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(text); err != nil {
		return h, err
	}
	var o metav1.PartialObjectMetadata
	if err := o.Unmarshal(wrapped.Raw); err != nil {
		return h, err
	}
	h.Kind = wrapped.Kind
	h.Metadata.ResourceVersion, h.Metadata.DeletionTimestamp = o.ResourceVersion, o.DeletionTimestamp
	h.Metadata.Finalizers = o.Finalizers
	return h, nil
}
