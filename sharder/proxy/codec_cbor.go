package proxy

import (
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cborCodec reads CBOR, which it decodes as a whole.
type cborCodec struct{}

func (cborCodec) framer() runtime.Framer { return cbor.NewFramer() }

func (c cborCodec) editEvent(data []byte, f editor) ([]byte, error) {
	var event map[string]any
	if err := direct.Unmarshal(data, &event); err != nil {
		return nil, err
	}
	if object, ok := event["object"].(map[string]any); ok {
		if err := editUnstructured(object, f); err != nil {
			return nil, err
		}
	}
	return direct.Marshal(event)
}

func (c cborCodec) editList(to io.Writer, from io.Reader, f editor) error {
	data, err := io.ReadAll(from)
	if err == nil {
		data, err = c.edit(data, f)
	}
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return err
}

func (c cborCodec) edit(data []byte, f editor) ([]byte, error) {
	var object map[string]any
	if err := direct.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if err := editUnstructured(object, f); err != nil {
		return nil, err
	}
	return direct.Marshal(object)
}

// editUnstructured edits the metadata of an object, of the elements of a list, or of the objects of
// a table.
func editUnstructured(object map[string]any, f editor) error {
	u := unstructured.Unstructured{Object: object}
	each, nested := object["items"], false
	if strings.HasPrefix(u.GetAPIVersion(), "meta.k8s.io/") {
		each, nested = object["rows"], true
	}
	if all, ok := each.([]any); ok && (nested || strings.HasSuffix(u.GetKind(), "List") && u.GetName() == "") {
		for _, one := range all {
			element, _ := one.(map[string]any)
			if nested {
				element, _ = element["object"].(map[string]any)
			}
			if element == nil {
				continue
			}
			if err := editUnstructured(element, f); err != nil {
				return err
			}
		}
		return nil
	}
	m := metadataOf(&u)
	before := m.clone()
	if err := f(&m); err != nil {
		return err
	}
	if m.equal(before) {
		return nil
	}
	u.SetName(m.name)
	u.SetUID(types.UID(m.uid))
	u.SetResourceVersion(m.resourceVersion)
	u.SetLabels(orNil(m.labels))
	u.SetAnnotations(orNil(m.annotations))
	if len(m.owners) != len(before.owners) { // whose fields may be more than these here
		u.SetOwnerReferences(m.owners)
	}
	return nil
}

func metadataOf(o metav1.Object) objectMeta {
	return objectMeta{
		name: o.GetName(), namespace: o.GetNamespace(), generateName: o.GetGenerateName(), uid: string(o.GetUID()),
		resourceVersion: o.GetResourceVersion(), labels: o.GetLabels(), annotations: o.GetAnnotations(),
		owners: o.GetOwnerReferences(),
	}
}

// orNil returns nil for an empty map, so that the field is left out.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
