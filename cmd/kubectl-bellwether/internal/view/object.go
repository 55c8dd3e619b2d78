package view

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// Object is an object of a ring, with the state in its labels and its record.
type Object struct {
	Resource  string `json:"resource"` // with its group, such as replicasets.apps
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Shard is the value of its label, or empty without one.
	Shard    string `json:"shard,omitempty"`
	Draining bool   `json:"draining,omitempty"`
	// Owner is the content of its record, or nil without a valid one.
	Owner *sharder.Ownership `json:"-"`
	// Controller is the name of the object that controls it, or is its only owner.
	Controller string `json:"-"`
	// Written is when the client that has written the record last changed the object; DrainSince is
	// the same for the drain label. They are zero unless the API server has noted that.
	Written    time.Time `json:"-"`
	DrainSince time.Time `json:"-"`
	// Key determines its place on the ring.
	Key string `json:"-"`
}

// Kind is a resource and the kind of its objects.
type Kind struct {
	schema.GroupVersionResource
	Kind       schema.GroupKind
	Namespaced bool
}

// ObjectOf returns the state that an object of a ring records. A nil key stands for [api.ObjectKey].
func ObjectOf(ring string, k Kind, o metav1.Object, key api.KeyFunc) Object {
	if key == nil {
		key = api.ObjectKey
	}
	resource := k.GroupResource()
	v := Object{
		Resource: resource.String(), Namespace: o.GetNamespace(), Name: o.GetName(),
		Shard: o.GetLabels()[api.ShardLabel(ring)], Key: string(key(nil, k.Kind, o)),
		Written: writtenAt(o, api.RecordAnnotation(ring, resource)),
	}
	if _, v.Draining = o.GetLabels()[api.DrainLabel(ring)]; v.Draining {
		v.DrainSince = writtenAt(o, api.DrainLabel(ring))
	}
	if owner, ok := sharder.OwnershipOf(ring, resource, o); ok {
		v.Owner = &owner
	}
	if c := metav1.GetControllerOf(o); c != nil {
		v.Controller = c.Name
	} else if owners := o.GetOwnerReferences(); len(owners) == 1 {
		v.Controller = owners[0].Name
	}
	return v
}

// writtenAt is when the API server last noted a change by the client that owns a label or an annotation.
func writtenAt(o metav1.Object, key string) time.Time {
	var latest time.Time
	for _, e := range o.GetManagedFields() {
		if e.FieldsV1 != nil && e.Time != nil && strings.Contains(e.FieldsV1.GetRawString(), `"f:`+key+`"`) &&
			e.Time.After(latest) {
			latest = e.Time.Time
		}
	}
	return latest
}

// holder is the shard that may work on the object, or empty if no shard may.
func (o Object) holder() string {
	switch {
	case o.Owner == nil:
		return o.Shard
	case o.Owner.Free:
		return ""
	}
	return o.Owner.Shard
}
