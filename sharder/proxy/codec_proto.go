package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
)

// protoCodec reads Kubernetes' Protocol Buffers. It decodes only the envelope and the metadata: in
// every object that is field 1, and in every list field 2 has the objects.
type protoCodec struct{}

// magic is before each object.
var magic = []byte("k8s\x00")

var errProto = errors.New("the Protocol Buffers are malformed")

func (protoCodec) framer() runtime.Framer { return protobuf.LengthDelimitedFramer }

func (c protoCodec) editEvent(data []byte, f editor) ([]byte, error) {
	var event metav1.WatchEvent
	if err := event.Unmarshal(data); err != nil {
		return nil, err
	}
	var err error
	if event.Object.Raw, err = c.edit(event.Object.Raw, f); err != nil {
		return nil, err
	}
	return event.Marshal()
}

func (protoCodec) edit(data []byte, f editor) ([]byte, error) {
	parts, err := editEnveloped(data, func(object []byte) ([][]byte, error) { return editObject(object, f) })
	return bytes.Join(parts, nil), err
}

// editList holds the list in memory once, because the lengths of what is changed come before it.
func (protoCodec) editList(to io.Writer, from io.Reader, f editor) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	parts, err := editEnveloped(data, func(list []byte) ([][]byte, error) {
		return editFields(list, 2, func(object []byte) ([][]byte, error) { return editObject(object, f) })
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 32<<10)
	for _, part := range parts {
		_, _ = out.Write(part)
	}
	return out.Flush()
}

// editEnveloped edits what follows magic: in every runtime.Unknown, field 2 has the object or the list.
func editEnveloped(data []byte, edit func([]byte) ([][]byte, error)) ([][]byte, error) {
	envelope, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil, errProto
	}
	parts, err := editFields(envelope, 2, edit)
	return append([][]byte{magic}, parts...), err
}

func editObject(object []byte, f editor) ([][]byte, error) {
	return editFields(object, 1, func(metadata []byte) ([][]byte, error) {
		edited, err := protoMetadata(metadata, f)
		return [][]byte{edited}, err
	})
}

// protoMetadata edits an encoded ObjectMeta.
func protoMetadata(data []byte, f editor) ([]byte, error) {
	var o metav1.ObjectMeta
	if err := o.Unmarshal(data); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	m := objectMeta{
		name: o.Name, namespace: o.Namespace, generateName: o.GenerateName, uid: string(o.UID),
		resourceVersion: o.ResourceVersion, labels: o.Labels, annotations: o.Annotations, owners: o.OwnerReferences,
	}
	before := m.clone()
	if err := f(&m); err != nil {
		return nil, err
	}
	if m.equal(before) {
		return data, nil
	}
	o.Name, o.UID, o.ResourceVersion = m.name, types.UID(m.uid), m.resourceVersion
	o.Labels, o.Annotations, o.OwnerReferences = m.labels, m.annotations, m.owners
	return o.Marshal()
}

// editFields edits each field of a message with this number. The parts that it returns make the message together, and
// are not copied where nothing has changed.
func editFields(message []byte, number protowire.Number, edit func([]byte) ([][]byte, error)) (
	parts [][]byte, err error,
) {
	kept := message // since the last field that was edited
	for rest := message; len(rest) > 0; {
		of, kind, size := protowire.ConsumeField(rest)
		if size < 0 {
			return nil, errProto
		}
		field, before := rest[:size], kept[:len(kept)-len(rest)]
		if rest = rest[size:]; of != number || kind != protowire.BytesType {
			continue
		}
		kept = rest
		_, _, tag := protowire.ConsumeTag(field)
		value, _ := protowire.ConsumeBytes(field[tag:])
		edited, err := edit(value)
		if err != nil {
			return nil, err
		}
		length := 0
		for _, part := range edited {
			length += len(part)
		}
		parts = append(parts, before, protowire.AppendVarint(bytes.Clone(field[:tag]), uint64(length)))
		parts = append(parts, edited...)
	}
	return append(parts, kept), nil
}
