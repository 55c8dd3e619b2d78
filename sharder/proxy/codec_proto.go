package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

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

// editFields edits each field of a message with this number, which has a length. The parts that it
// returns make the message together, and are not copied where nothing has changed.
func editFields(message []byte, number uint64, edit func([]byte) ([][]byte, error)) (parts [][]byte, err error) {
	kept := message // since the last field that was edited
	for rest := message; len(rest) > 0; {
		tag, value, size := firstField(rest)
		if size == 0 {
			return nil, errProto
		}
		field, before := rest[:size], kept[:len(kept)-len(rest)]
		if rest = rest[size:]; tag != number<<3|lengthDelimited {
			continue
		}
		kept = rest
		edited, err := edit(field[value:])
		if err != nil {
			return nil, err
		}
		length := uint64(0)
		for _, part := range edited {
			length += uint64(len(part))
		}
		parts = append(parts, before, binary.AppendUvarint(binary.AppendUvarint(nil, tag), length))
		parts = append(parts, edited...)
	}
	return append(parts, kept), nil
}

// lengthDelimited is the wire type of what has a length, in the lowest three bits of a tag. See
// https://protobuf.dev/programming-guides/encoding.
const lengthDelimited = 2

// firstField returns the tag of the first field of a message, where its value begins, and its size,
// or zero if it is malformed.
func firstField(message []byte) (tag uint64, value, size int) {
	tag, n := binary.Uvarint(message)
	if n <= 0 {
		return 0, 0, 0
	}
	length, m := binary.Uvarint(message[n:])
	switch tag & 7 {
	case 0: // the number is the value
		value, length = n+m, 0
	case 1:
		value, length, m = n, 8, 1
	case lengthDelimited:
		value = n + m
	case 5:
		value, length, m = n, 4, 1
	default:
		return 0, 0, 0
	}
	if m <= 0 || length > uint64(len(message)-value) {
		return 0, 0, 0
	}
	return tag, value, value + int(length)
}
