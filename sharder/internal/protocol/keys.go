package protocol

import (
	"strings"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// DrainValue is the usual value of the drain label. If the record names a successor, the value is
// the record's seal instead. Any value, even the empty one, is a drain.
const DrainValue = "true"

// Keys are the label and annotation keys of one ring. Record depends on the resource, and is empty
// where it does not matter.
type Keys struct{ ring, Shard, Drain, Seal, Record string }

// KeysOf returns the keys of a ring, without Record.
func KeysOf(ring string) Keys {
	return Keys{
		ring: ring, Shard: api.ShardLabel(ring), Drain: api.DrainLabel(ring), Seal: api.SealLabel(ring),
	}
}

// Of returns the keys for the objects of a resource.
func (n Keys) Of(resource schema.GroupResource) Keys {
	n.Record = api.RecordAnnotation(n.ring, resource)
	return n
}

// isRecord reports whether an annotation key holds records of some resource of the ring.
func (n Keys) isRecord(annotation string) bool {
	prefix, suffix, _ := strings.Cut(api.RecordAnnotation(n.ring, schema.GroupResource{Resource: "*"}), "*")
	resource, ok := strings.CutPrefix(annotation, prefix)
	return ok && strings.HasSuffix(resource, suffix)
}

// ShardOf returns the value of the shard label, or "" without a label.
func (n Keys) ShardOf(o metav1.Object) string { return o.GetLabels()[n.Shard] }

// CarriesMarks reports whether an object carries a label or annotation of the ring.
func (n Keys) CarriesMarks(o metav1.Object) bool {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	for _, key := range []string{n.Shard, n.Drain, n.Seal} {
		if _, ok := labels[key]; ok {
			return true
		}
	}
	_, ok := annotations[n.Record]
	return ok
}

// OwnerEpochs returns the epochs that may be at work on an object by its record.
func (n Keys) OwnerEpochs(o metav1.Object) []OwnerEpoch {
	r, ok := n.RecordOf(o)
	switch {
	case !ok:
		return nil
	case r.State == StateFree:
		return r.Left
	}
	return append([]OwnerEpoch{r.Owner()}, r.Left...)
}

// RingProblems returns the rules that the name of a ring breaks. The name is part of label keys and
// of a ConfigMap's name, and the value of a label.
func RingProblems(ring string) []string {
	if ring == "" {
		return []string{"must be set"}
	}
	return validation.IsDNS1123Label(ring)
}
