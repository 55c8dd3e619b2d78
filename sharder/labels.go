package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What a ring's protocol writes on objects: the domains of its labels and of its annotation. The name of the ring follows, so that
// one object can be in several rings.
const (
	shardDomain = "shard.bellwether.dev/"
	drainDomain = "drain.bellwether.dev/"
	ownerDomain = "owner.bellwether.dev/"
)

// ShardLabel is the label that makes an object visible to a shard: its value is the shard's identity. Who may work on the object
// is for [OwnerAnnotation] to say.
func ShardLabel(ring string) string { return shardDomain + ring }

// DrainLabel is the label that asks a shard to let go of an object.
func DrainLabel(ring string) string { return drainDomain + ring }

// OwnerAnnotation is the annotation with the record of an object's owner.
func OwnerAnnotation(ring string) string { return ownerDomain + ring }

// drainValue is what the sharder sets the drain label to. Any value, the empty one too, is a drain.
const drainValue = "true"

// names are those of one ring, made once.
type names struct{ shard, drain, owner string }

func namesOf(ring string) names {
	return names{shard: ShardLabel(ring), drain: DrainLabel(ring), owner: OwnerAnnotation(ring)}
}

// shardOf returns the value of the shard label, empty if there is none.
func (n names) shardOf(o metav1.Object) string { return o.GetLabels()[n.shard] }

// ringProblems returns the rules that the name of a ring breaks. It is part of the names of labels and of a ConfigMap, and the
// value of a label.
func ringProblems(ring string) []string {
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
