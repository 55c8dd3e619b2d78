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

// object is one stored version. It is never changed once stored.
type object = unstructured.Unstructured

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
}

// selection is what a list or a watch asks for.
type selection struct {
	resource  schema.GroupResource
	namespace string // empty: all
	labels    labels.Selector
	fields    fields.Selector
	others    []string // that fields may name besides those of metadata
}

func (s selection) matches(k key, o *object) bool {
	if o == nil || k.resource != s.resource || s.namespace != "" && k.namespace != s.namespace {
		return false
	}
	values := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	for _, path := range s.others {
		values[path], _, _ = unstructured.NestedString(o.Object, strings.Split(path, ".")...)
	}
	return s.labels.Matches(labels.Set(o.GetLabels())) && s.fields.Matches(values)
}

// database is the objects and their history. Its methods are called with the server's mutex held.
type database struct {
	version   int64 // of the latest change
	compacted int64 // changes up to here are forgotten
	objects   map[key]*object
	history   []change
	created   int // for names and UIDs
}

// put stores o as the next version of k; nil deletes. It returns the stored object, or the last
// state of a deleted one with the version of its deletion.
func (d *database) put(k key, o *object) (*object, change) {
	d.version++
	before := d.objects[k]
	c := change{version: d.version, key: k, before: before, after: o}
	stored := o
	if o == nil {
		delete(d.objects, k)
		stored = before.DeepCopy()
	} else {
		d.objects[k] = o
	}
	stored.SetResourceVersion(strconv.FormatInt(d.version, 10))
	d.history = append(d.history, c)
	return stored, c
}

// compact forgets the changes up to a version.
func (d *database) compact(version int64) {
	later, _ := d.since(max(version, d.compacted))
	d.compacted, d.history = max(version, d.compacted), slices.Clone(later)
}

// at returns the objects as they were at a version, or false if that is forgotten.
func (d *database) at(version int64) (map[key]*object, bool) {
	if version < d.compacted {
		return nil, false
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
func (d *database) since(version int64) ([]change, bool) {
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
		o = o.DeepCopy()
		unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
		unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
		return o.Object
	}
	return reflect.DeepEqual(strip(a), strip(b))
}

// status is an error to answer with.
type status = *apierrors.StatusError

// onTheWire is a status as clients recognise it.
func onTheWire(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return s
}

// failure is an error without details. The server's own faults have no reason.
func failure(code int, reason metav1.StatusReason, message string) status {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message,
	}}
}
