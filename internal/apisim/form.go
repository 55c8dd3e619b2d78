package apisim

import (
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// form is how a client requests objects: in which encoding, and whole or only their metadata.
type form struct {
	encoding
	metadata bool
}

// formOf is the first form that a request accepts and the server can answer in. Without one it is
// JSON, as for kubectl, which prefers tables.
func formOf(c *Client, r *http.Request, kind schema.GroupVersionKind) form {
	for clause := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		contentType, parameters, _ := strings.Cut(strings.TrimSpace(clause), ";")
		metadata := strings.Contains(parameters, "as=PartialObjectMetadata")
		switch {
		case contentType == runtime.ContentTypeProtobuf && !c.json && (metadata || scheme.Scheme.Recognizes(kind)):
			return form{inProtobuf{}, metadata}
		case contentType == runtime.ContentTypeJSON && metadata:
			return form{inJSON{}, true}
		}
	}
	return form{inJSON{}, false}
}

// kind is that of an object in this form.
func (f form) kind(of schema.GroupVersionKind) schema.GroupVersionKind {
	if f.metadata {
		return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
	}
	return of
}

// object is the answer to a request for one.
func (f form) object(o *Object) []byte { return f.typed(f.kind(o.kind), f.fields(o)) }

// fields are those of a stored object, which are encoded once.
func (f form) fields(o *Object) []byte {
	if o.encoded == nil {
		o.encoded = map[form][]byte{}
	}
	fields, ok := o.encoded[f]
	if !ok {
		fields = f.encoding.object(o, f.metadata)
		o.encoded[f] = fields
	}
	return fields
}

// list is the answer to a request for many. The items of a list of whole objects do not repeat its kind.
func (f form) list(l list) []byte {
	kind := f.kind(l.gvk())
	items := make([][]byte, len(l.items))
	for i, o := range l.items {
		items[i] = f.fields(o)
	}
	var repeated schema.GroupVersionKind
	if f.metadata {
		repeated = kind
	}
	return f.typed(kind.GroupVersion().WithKind(kind.Kind+"List"), f.encoding.list(l.meta, repeated, items))
}

// event is what a watch sends of an object.
func (f form) event(kind apiwatch.EventType, o *Object) []byte {
	return f.encoding.event(kind, f.object(o))
}

// failed is what a watch sends of its own failure.
func (f form) failed(err status) []byte {
	return f.encoding.event(apiwatch.Error, f.message(onTheWire(err.Status())))
}
