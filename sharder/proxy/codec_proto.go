package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

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
	rest, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return nil, errProto
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(rest); err != nil {
		return nil, err
	}
	edit := func(object []byte) ([]byte, error) { return editFields(object, 1, protoMetadata(f)) }
	var err error
	if strings.HasSuffix(envelope.Kind, listSuffix) {
		envelope.Raw, err = editFields(envelope.Raw, 2, edit)
	} else {
		envelope.Raw, err = edit(envelope.Raw)
	}
	if err != nil {
		return nil, err
	}
	encoded, err := envelope.Marshal()
	return append(bytes.Clone(magic), encoded...), err
}

// protoMetadata edits an encoded ObjectMeta.
func protoMetadata(f editor) func([]byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
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
}

// editFields edits each field of a message with this number, which has a length, and copies all
// others. See https://protobuf.dev/programming-guides/encoding for the encoding.
func editFields(message []byte, number uint64, edit func([]byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, len(message))
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return nil, errProto
		}
		size, prefix := uint64(0), uint64(n)
		switch tag & 7 {
		case 0: // a varint
			_, n := binary.Uvarint(message[prefix:])
			if n <= 0 {
				return nil, errProto
			}
			size = uint64(n)
		case 1:
			size = 8
		case 2: // a length, and as many bytes
			length, n := binary.Uvarint(message[prefix:])
			if n <= 0 {
				return nil, errProto
			}
			prefix, size = prefix+uint64(n), length
		case 5:
			size = 4
		default:
			return nil, errProto
		}
		if size > uint64(len(message))-prefix {
			return nil, errProto
		}
		field := message[:prefix+size]
		message = message[prefix+size:]
		if tag != number<<3|2 {
			out = append(out, field...)
			continue
		}
		edited, err := edit(field[prefix:])
		if err != nil {
			return nil, err
		}
		out = binary.AppendUvarint(binary.AppendUvarint(out, tag), uint64(len(edited)))
		out = append(out, edited...)
	}
	return out, nil
}
