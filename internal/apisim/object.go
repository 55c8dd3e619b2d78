package apisim

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is one version of an object. Neither it nor any value in it changes once stored, because a
// successor shares what it does not change.
type Object struct {
	metav1.Object // its metadata
	kind          schema.GroupVersionKind
	typed         message                        // nil unless a client of Protocol Buffers has sent it
	tree          *unstructured.Unstructured     // nil if typed has the fields
	content       atomic.Pointer[map[string]any] // made of typed by Content, which observers also call
	stored        bool
	encoded       map[form][]byte // its fields
}

func treeObject(content map[string]any) *Object {
	tree := &unstructured.Unstructured{Object: content}
	return &Object{Object: tree, kind: tree.GroupVersionKind(), tree: tree}
}

func typedObject(typed message) *Object {
	return &Object{Object: typed.(metav1.Object), kind: typed.GetObjectKind().GroupVersionKind(), typed: typed}
}

// GetKind returns its kind without the group.
func (o *Object) GetKind() string { return o.kind.Kind }

// Content returns all its fields.
func (o *Object) Content() map[string]any {
	if o.tree != nil {
		return o.tree.Object
	}
	if content := o.content.Load(); content != nil {
		return *content
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.typed)
	if err != nil {
		panic(fmt.Sprintf("apisim: %s %s/%s: %v", o.kind.Kind, o.GetNamespace(), o.GetName(), err))
	}
	if o.stored {
		o.content.Store(&content)
	}
	return content
}

// copy returns an object whose metadata can be set.
func (o *Object) copy() *Object {
	if o.typed != nil {
		return typedObject(o.typed.DeepCopyObject().(message))
	}
	return o.copyTree()
}

// copyTree returns an object whose metadata, and other fields of its Content, can be set.
func (o *Object) copyTree() *Object {
	content := maps.Clone(o.Content())
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	return treeObject(content)
}

// labelsOf are those of an object, for selectors.
type labelsOf struct{ *Object }

// Lookup implements [labels.Labels].
func (l labelsOf) Lookup(name string) (value string, exists bool) {
	if l.tree == nil {
		value, exists = l.GetLabels()[name]
		return value, exists
	}
	metadata, _ := l.tree.Object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any) // GetLabels would copy them
	value, exists = all[name].(string)
	return value, exists
}

// Has implements [labels.Labels].
func (l labelsOf) Has(name string) bool {
	_, exists := l.Lookup(name)
	return exists
}

// Get implements [labels.Labels].
func (l labelsOf) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// fieldsOf are the fields of an object that selectors may name.
type fieldsOf struct{ *Object }

// Get implements [fields.Fields].
func (f fieldsOf) Get(path string) string {
	switch path {
	case "metadata.name":
		return f.GetName()
	case "metadata.namespace":
		return f.GetNamespace()
	}
	value, _, _ := unstructured.NestedString(f.Content(), strings.Split(path, ".")...)
	return value
}

// Has implements [fields.Fields].
func (fieldsOf) Has(string) bool { return true }

// key names an object and sorts in the order of lists.
type key struct {
	resource  schema.GroupResource
	namespace string
	name      string
}

func (k key) less(o key) bool {
	if k.namespace != o.namespace {
		return k.namespace < o.namespace
	}
	return k.name < o.name
}

// change is one entry of the server's history.
type change struct {
	version int64
	key     key
	before  *Object // nil if created
	after   *Object // nil if deleted
	gone    *Object // see last
}

// last is the state before, with the version of the change, as sent to watches for which the object is gone.
func (c *change) last() *Object {
	if c.gone == nil {
		c.gone = c.before.copy()
		c.gone.SetResourceVersion(strconv.FormatInt(c.version, 10))
		c.gone.stored = true
	}
	return c.gone
}

// selection is what a list or a watch asks for.
type selection struct {
	resource  schema.GroupResource
	namespace string // empty for all
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) matches(k key, o *Object) bool {
	return o != nil && k.resource == s.resource && (s.namespace == "" || k.namespace == s.namespace) &&
		s.labels.Matches(labelsOf{o}) && s.fields.Matches(fieldsOf{o})
}

// database is the objects and their history. Its methods are called with the server's mutex held.
type database struct {
	version   int64 // of the latest change
	compacted int64 // changes up to here are forgotten
	objects   map[key]*Object
	history   []*change
	created   int // for names and UIDs
}

// put stores o as the next version of k; nil deletes. It returns the stored object, or the last
// state of a deleted one with the version of its deletion.
func (d *database) put(k key, o *Object) (*Object, *change) {
	d.version++
	c := &change{version: d.version, key: k, before: d.objects[k], after: o}
	d.history = append(d.history, c)
	if o == nil {
		delete(d.objects, k)
		return c.last(), c
	}
	o.SetResourceVersion(strconv.FormatInt(d.version, 10))
	o.stored = true
	d.objects[k] = o
	return o, c
}

// compact forgets the changes up to a version.
func (d *database) compact(version int64) {
	later, _ := d.since(max(version, d.compacted))
	d.compacted, d.history = max(version, d.compacted), slices.Clone(later)
}

// at returns the objects as they were at a version, or false if that is forgotten. They must not be changed.
func (d *database) at(version int64) (map[key]*Object, bool) {
	if version < d.compacted {
		return nil, false
	}
	if version >= d.version {
		return d.objects, true
	}
	objects := maps.Clone(d.objects)
	for i := len(d.history) - 1; i >= 0 && d.history[i].version > version; i-- {
		if c := d.history[i]; c.before == nil {
			delete(objects, c.key)
		} else {
			objects[c.key] = c.before
		}
	}
	return objects, true
}

// since returns the changes after a version, or false if some of them are forgotten.
func (d *database) since(version int64) ([]*change, bool) {
	if version < d.compacted {
		return nil, false
	}
	i := len(d.history)
	for i > 0 && d.history[i-1].version > version {
		i--
	}
	return d.history[i:], true
}

// same reports whether a stored version and its successor, which still has its resourceVersion,
// differ only in their managedFields.
func same(old, o *Object) bool {
	if len(old.GetManagedFields())+len(o.GetManagedFields()) > 0 {
		old, o = old.copyTree(), o.copyTree()
		old.SetManagedFields(nil)
		o.SetManagedFields(nil)
	}
	if old.typed != nil && o.typed != nil {
		return bytes.Equal(form{inProtobuf{}, false}.fields(old), marshalProtobuf(o.typed))
	}
	return reflect.DeepEqual(old.Content(), o.Content())
}

// sameMetadata reports whether two versions are known to have the same metadata.
func sameMetadata(a, b *Object) bool {
	switch {
	case a.typed != nil && b.typed != nil:
		return bytes.Equal(metadataInProtobuf(a.typed), metadataInProtobuf(b.typed))
	case b.tree != nil:
		return reflect.DeepEqual(a.Content()["metadata"], b.tree.Object["metadata"])
	}
	return false
}

// status is an error to answer with.
type status = *apierrors.StatusError

// onTheWire returns a status as clients recognise it.
func onTheWire(s metav1.Status) *metav1.Status {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &s
}

// failure is an error without details. The server's own faults have no reason.
func failure(code int, reason metav1.StatusReason, message string) status {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message,
	}}
}
