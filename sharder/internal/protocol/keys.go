package protocol

import (
	"strings"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DrainValue is what the sharder sets the drain label to, unless the record names who is next: then
// it is the seal of that record. Any value, the empty one too, is a drain.
const DrainValue = "true"

// Keys are those of one ring, made once. record is for the objects of one resource, and empty where that does not matter.
type Keys struct{ ring, Shard, Drain, Seal, Owner, Record string }

// KeysOf returns the keys of a ring, without that of the record annotation.
func KeysOf(ring string) Keys {
	return Keys{ring: ring, Shard: api.ShardLabel(ring), Drain: api.DrainLabel(ring), Seal: api.SealLabel(ring), Owner: api.OwnerAnnotation(ring)}
}

// Of returns the names for the objects of a resource.
func (n Keys) Of(resource schema.GroupResource) Keys {
	n.Record = api.RecordAnnotation(n.ring, resource)
	return n
}

// isRecord reports whether an annotation is for records of objects of some resource of the ring.
func (n Keys) isRecord(annotation string) bool {
	prefix, suffix, _ := strings.Cut(api.RecordAnnotation(n.ring, schema.GroupResource{Resource: "*"}), "*")
	resource, ok := strings.CutPrefix(annotation, prefix)
	return ok && strings.HasSuffix(resource, suffix)
}

// ShardOf returns the value of the shard label, empty if there is none.
func (n Keys) ShardOf(o metav1.Object) string { return o.GetLabels()[n.Shard] }

// RingProblems returns the rules that the name of a ring breaks. It is part of the names of labels and of a ConfigMap, and the
// value of a label.
func RingProblems(ring string) []string {
	if ring == "" {
		return []string{"must be set"}
	}
	return validation.IsDNS1123Label(ring)
}

// shardProblems returns the rules that the identity of a shard breaks, as the value of a label.
func shardProblems(shard string) []string {
	if shard == "" {
		return []string{"must be set"}
	}
	return validation.IsValidLabelValue(shard)
}
