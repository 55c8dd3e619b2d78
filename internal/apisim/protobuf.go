package apisim

import (
	"encoding/binary"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// inProtobuf is the encoding that clients of Kubernetes' own resources prefer, and is less work than JSON.
type inProtobuf struct{}

// protobufPrefix is before the kind of whatever is sent on its own.
const protobufPrefix = "k8s\x00"

// The numbers of fields, in messages of the packages runtime and meta/v1.
const (
	unknownType, unknownRaw = 1, 2
	typeVersion, typeKind   = 1, 2
	listMeta, listItems     = 1, 2
	metadataField           = 1
	eventType, eventObject  = 1, 2
	extensionRaw            = 1
	eventLength             = 4 // bytes of the length before an event
)

func (inProtobuf) contentType() string { return runtime.ContentTypeProtobuf }

func (inProtobuf) object(o *Object, metadata bool) []byte {
	if o.typed != nil {
		if metadata {
			return appendField(nil, metadataField, metadataInProtobuf(o.typed))
		}
		return marshalProtobuf(o.typed)
	}
	var typed runtime.Object = &metav1.PartialObjectMetadata{}
	content := o.Content()
	if metadata {
		content = map[string]any{"metadata": content["metadata"]}
	} else {
		var err error
		if typed, err = scheme.Scheme.New(o.kind); err != nil {
			panic(fmt.Sprintf("apisim: %v", err)) // formOf does not let this happen
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		panic(fmt.Sprintf("apisim: %s %s/%s in Protocol Buffers: %v", o.kind.Kind, o.GetNamespace(), o.GetName(), err))
	}
	return marshalProtobuf(typed.(message))
}

func metadataInProtobuf(o message) []byte {
	return marshalProtobuf(o.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta))
}

func marshalProtobuf(m interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := m.Marshal()
	if err != nil {
		panic(fmt.Sprintf("apisim: encode %T: %v", m, err))
	}
	return raw
}

// appendField appends a field with a length.
func appendField[T []byte | string](message []byte, number int, value T) []byte {
	const lengthDelimited = 2
	message = append(message, byte(number<<3|lengthDelimited))
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}

// headroom is more than the tags and lengths of a few fields take.
const headroom = 64

func (inProtobuf) typed(kind schema.GroupVersionKind, fields []byte) []byte {
	version := kind.GroupVersion().String()
	typed := make([]byte, 0, len(version)+len(kind.Kind)+len(fields)+headroom)
	typed = append(typed, protobufPrefix...)
	typed = appendField(typed, unknownType, appendField(appendField(nil, typeVersion, version), typeKind, kind.Kind))
	return appendField(typed, unknownRaw, fields)
}

func (inProtobuf) list(meta metav1.ListMeta, _ schema.GroupVersionKind, items [][]byte) []byte {
	list := appendField(nil, listMeta, marshalProtobuf(&meta))
	for _, item := range items {
		list = appendField(list, listItems, item)
	}
	return list
}

func (inProtobuf) event(kind apiwatch.EventType, object []byte) []byte {
	event := make([]byte, eventLength, eventLength+len(kind)+len(object)+headroom)
	event = appendField(event, eventType, string(kind))
	event = appendField(event, eventObject, appendField(make([]byte, 0, len(object)+headroom), extensionRaw, object))
	binary.BigEndian.PutUint32(event, uint32(len(event)-eventLength))
	return event
}

func (p inProtobuf) message(m message) []byte {
	return p.typed(m.GetObjectKind().GroupVersionKind(), marshalProtobuf(m))
}

func (inProtobuf) decode(body []byte) (*Object, error) {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	typed, ok := o.(message)
	if _, isObject := o.(metav1.ObjectMetaAccessor); !ok || !isObject {
		return nil, fmt.Errorf("a %T is no object", o)
	}
	return typedObject(typed), nil
}

func (inProtobuf) options(body []byte) (o metav1.DeleteOptions, err error) {
	_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &o)
	return o, err
}
