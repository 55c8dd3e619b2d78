package proxy

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// objectMeta is what the proxy reads and changes of an object. What an encoding has besides stays as
// it is.
type objectMeta struct {
	name, namespace, generateName string
	uid, resourceVersion          string
	labels, annotations           map[string]string
	owners                        []metav1.OwnerReference
}

func (m objectMeta) clone() objectMeta {
	m.labels, m.annotations = maps.Clone(m.labels), maps.Clone(m.annotations)
	return m
}

// equal reports whether an editor has changed nothing of what it may change.
func (m objectMeta) equal(other objectMeta) bool {
	return m.name == other.name && m.uid == other.uid && m.resourceVersion == other.resourceVersion &&
		len(m.owners) == len(other.owners) &&
		maps.Equal(m.labels, other.labels) && maps.Equal(m.annotations, other.annotations)
}

// editor changes name, uid, resourceVersion, labels or annotations of one object, or adds or removes owners.
type editor func(m *objectMeta) error

// codec reads and writes one encoding.
type codec interface {
	// edit calls f for the metadata of an object, or of each object of a table, and returns the data with
	// what f has changed.
	edit(data []byte, f editor) ([]byte, error)
	// editList copies a list or a table, each object edited.
	editList(to io.Writer, from io.Reader, f editor) error
	// editEvent is edit for an event of a watch.
	editEvent(data []byte, f editor) ([]byte, error)
	// framer splits the stream of a watch into events.
	framer() runtime.Framer
}

// codecOf returns the codec of a media type, or nil for one that the proxy does not read.
func codecOf(contentType string) codec {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil
	}
	switch media {
	case "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/json-patch+json", "application/yaml", "application/apply-patch+yaml":
		return jsonCodec{}
	case "application/vnd.kubernetes.protobuf":
		return protoCodec{}
	case "application/cbor", "application/cbor-seq", "application/apply-patch+cbor":
		return cborCodec{}
	}
	return nil
}

// readable returns the media types of an Accept header that the proxy can read, in their order. YAML
// is asked for as JSON, which is YAML.
func readable(accept string) string {
	var kept []string
	for _, each := range strings.Split(accept, ",") {
		media, parameters, err := mime.ParseMediaType(strings.TrimSpace(each))
		switch {
		case err != nil:
			continue
		case media == "*/*" || media == "application/*":
			media = "application/json"
		case media == "application/yaml":
			media = "application/json"
		case codecOf(media) == nil:
			continue
		}
		kept = append(kept, mime.FormatMediaType(media, parameters))
	}
	if len(kept) == 0 {
		return "application/json"
	}
	return strings.Join(kept, ",")
}

// errTooLarge is an event, or a body, that is larger than any that an API server sends.
var errTooLarge = errors.New("it is larger than any that an API server sends")

// maxFrame bounds an event of a watch, as client-go does.
const maxFrame = 16 << 20

// editStream copies the events of a watch, each with its object edited, until the stream ends.
func editStream(to io.Writer, from io.ReadCloser, c codec, f editor) error {
	frames, out := c.framer().NewFrameReader(from), c.framer().NewFrameWriter(to)
	buffer := make([]byte, 4<<10)
	for {
		n, err := readFrame(frames, &buffer)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		event, err := c.editEvent(buffer[:n], f)
		if err != nil {
			return fmt.Errorf("read an event: %w", err)
		}
		if _, err := out.Write(event); err != nil {
			return err
		}
	}
}

// readFrame reads one frame into a buffer that grows.
func readFrame(frames io.Reader, buffer *[]byte) (n int, err error) {
	for {
		read, err := frames.Read((*buffer)[n:])
		n += read
		if !errors.Is(err, io.ErrShortBuffer) {
			return n, err
		}
		if len(*buffer) >= maxFrame {
			return n, errTooLarge
		}
		*buffer = append(*buffer, make([]byte, len(*buffer))...)
	}
}
