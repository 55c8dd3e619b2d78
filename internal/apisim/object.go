package apisim

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is one version. It is never changed once stored, nor is any value in it: a successor shares
// what it does not change.
type object struct {
	unstructured.Unstructured
	encoded map[form][]byte // its fields
}

// copy returns an object whose fields, and those of its metadata, can be set.
func (o *object) copy() *object {
	content := maps.Clone(o.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	return &object{Unstructured: unstructured.Unstructured{Object: content}}
}

// content is what others than clients see of an object that may be nil.
func (o *object) content() *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return &o.Unstructured
}

// labelsOf are those of an object, for selectors.
type labelsOf struct{ *object }

// Lookup implements [labels.Labels].
func (l labelsOf) Lookup(name string) (value string, exists bool) {
	metadata, _ := l.Object["metadata"].(map[string]any)
	all, _ := metadata["labels"].(map[string]any)
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
type fieldsOf struct{ *object }

// Get implements [fields.Fields].
func (f fieldsOf) Get(path string) string {
	value, _, _ := unstructured.NestedString(f.Object, strings.Split(path, ".")...)
	return value
}

// Has implements [fields.Fields].
func (fieldsOf) Has(string) bool { return true }

// key names an object, and sorts as the server lists.
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
	before  *object // nil: created
	after   *object // nil: deleted
	gone    *object // see last
}

// last is the state before, with the version of the change: what those get to know for whom the
// object is gone.
func (c *change) last() *object {
	if c.gone == nil {
		c.gone = c.before.copy()
		c.gone.SetResourceVersion(strconv.FormatInt(c.version, 10))
	}
	return c.gone
}

// selection is what a list or a watch asks for.
type selection struct {
	resource  schema.GroupResource
	namespace string // empty: all
	labels    labels.Selector
	fields    fields.Selector
}

func (s selection) matches(k key, o *object) bool {
	return o != nil && k.resource == s.resource && (s.namespace == "" || k.namespace == s.namespace) &&
		s.labels.Matches(labelsOf{o}) && s.fields.Matches(fieldsOf{o})
}

// database is the objects and their history. Its methods are called with the server's mutex held.
type database struct {
	version   int64 // of the latest change
	compacted int64 // changes up to here are forgotten
	objects   map[key]*object
	history   []*change
	created   int // for names and UIDs
}

// put stores o as the next version of k; nil deletes. It returns the stored object, or the last
// state of a deleted one with the version of its deletion.
func (d *database) put(k key, o *object) (*object, *change) {
	d.version++
	c := &change{version: d.version, key: k, before: d.objects[k], after: o}
	d.history = append(d.history, c)
	if o == nil {
		delete(d.objects, k)
		return c.last(), c
	}
	o.SetResourceVersion(strconv.FormatInt(d.version, 10))
	d.objects[k] = o
	return o, c
}

// compact forgets the changes up to a version.
func (d *database) compact(version int64) {
	later, _ := d.since(max(version, d.compacted))
	d.compacted, d.history = max(version, d.compacted), slices.Clone(later)
}

// at returns the objects as they were at a version, or false if that is forgotten. They are not to
// be changed.
func (d *database) at(version int64) (map[key]*object, bool) {
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

// same reports whether two versions differ in nothing but their resourceVersion and managedFields.
func same(a, b *object) bool {
	strip := func(o *object) map[string]any {
		o = o.copy()
		unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
		unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
		return o.Object
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

// status is an error to answer with.
type status = *apierrors.StatusError

// onTheWire is a status as clients recognise it.
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
