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

// Answered notes the answer to the write. If the version of the write is in its body, the body is
// replaced by one that notes the version when it has been read to its end.
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
		resp.Body = &body{ReadCloser: resp.Body, write: w, parse: parse, created: code == http.StatusCreated}
	}
}

// body is that of an answer with the version of a write.
type body struct {
	io.ReadCloser
	write   *Write
	parse   func([]byte) (head, error)
	created bool
	read    bytes.Buffer
}

// Read notes the version at the end.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read.Len()+n > maxAnswer {
		b.write.Unseen()
		b.read = bytes.Buffer{}
	} else {
		_, _ = b.read.Write(p[:n])
	}
	switch err {
	case nil:
	case io.EOF:
		b.end()
	default:
		b.write.Unseen()
	}
	return n, err
}

// Close notes that the rest will not be read.
func (b *body) Close() error {
	b.write.Unseen()
	return b.ReadCloser.Close()
}

func (b *body) end() {
	o, err := b.parse(b.read.Bytes())
	b.read = bytes.Buffer{}
	switch {
	case err != nil, o.Metadata.ResourceVersion == "", o.Kind == "Table", o.removed():
		b.write.Unseen()
	case b.created && b.write.whole:
		b.write.Above(o.Metadata.ResourceVersion)
	default:
		b.write.Stored(o.Metadata.ResourceVersion)
	}
}

// head is what is read of an object.
type head struct {
	Kind     string
	Metadata struct {
		ResourceVersion   string
		DeletionTimestamp *metav1.Time
		Finalizers        []string
	}
}

// removed reports whether the object may be gone: an update that removes the last finalizer of a
// deleted object deletes it, with another version than the answer's.
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

// parseProtobuf relies on a convention of the Kubernetes API: the metadata is field 1 of every object.
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
