package apisim

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	apiwatch "k8s.io/apimachinery/pkg/watch"
)

// encoding is JSON or Protocol Buffers. The results of its methods must not be changed.
type encoding interface {
	contentType() string
	// object has the fields of an object, or only its metadata, without its kind.
	object(o *Object, metadata bool) []byte
	// typed puts a kind before the fields of an object or a list.
	typed(kind schema.GroupVersionKind, fields []byte) []byte
	// list has the fields of a list. In JSON its items have the given kind, unless that is empty.
	list(meta metav1.ListMeta, kind schema.GroupVersionKind, items [][]byte) []byte
	// event is one of a watch. The object is typed, or a message.
	event(kind apiwatch.EventType, object []byte) []byte
	// message is an answer that is no object of the server, with its kind.
	message(m message) []byte
	// decode is the reverse of a typed object.
	decode(body []byte) (*Object, error)
	// options decodes the body of a deletion.
	options(body []byte) (metav1.DeleteOptions, error)
}

// message can be in Protocol Buffers: an object, or another answer, such as a Status.
type message interface {
	runtime.Object
	Marshal() ([]byte, error)
}

// inJSON is the encoding that every client understands.
type inJSON struct{}

func (inJSON) contentType() string { return runtime.ContentTypeJSON }

func (inJSON) object(o *Object, metadata bool) []byte {
	content := o.Content()
	if metadata {
		return marshal(map[string]any{"metadata": content["metadata"]})
	}
	fields := make(map[string]any, len(content))
	for name, value := range content {
		if name != "apiVersion" && name != "kind" {
			fields[name] = value
		}
	}
	return marshal(fields)
}

func (inJSON) typed(kind schema.GroupVersionKind, fields []byte) []byte {
	version := kind.GroupVersion().String()
	typed := make([]byte, 0, len(`{"kind":"","apiVersion":"",`)+len(kind.Kind)+len(version)+len(fields))
	typed = append(typed, `{"kind":"`...)
	typed = append(typed, kind.Kind...)
	typed = append(typed, `","apiVersion":"`...)
	typed = append(typed, version...)
	typed = append(typed, `",`...)
	return append(typed, fields[len("{"):]...) // there are always fields
}

func (j inJSON) list(meta metav1.ListMeta, kind schema.GroupVersionKind, items [][]byte) []byte {
	list := append([]byte(`{"metadata":`), marshal(meta)...)
	list = append(list, `,"items":[`...)
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		if !kind.Empty() {
			item = j.typed(kind, item)
		}
		list = append(list, item...)
	}
	return append(list, `]}`...)
}

func (inJSON) event(kind apiwatch.EventType, object []byte) []byte {
	event := make([]byte, 0, len(`{"type":"","object":}`)+len(kind)+len(object)+1)
	event = append(event, `{"type":"`...)
	event = append(event, kind...)
	event = append(event, `","object":`...)
	event = append(event, object...)
	return append(event, "}\n"...)
}

func (inJSON) message(m message) []byte { return marshal(m) }

func (inJSON) decode(body []byte) (*Object, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(body, &content); err != nil {
		return nil, err
	}
	return treeObject(content), nil
}

func (inJSON) options(body []byte) (o metav1.DeleteOptions, err error) {
	return o, json.Unmarshal(body, &o)
}

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("apisim: encode %T: %v", v, err))
	}
	return raw
}
