package sharder

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What a ring's protocol writes on objects: the domains of its labels and annotations. The name of the ring follows, so that one
// object can be in several rings.
const (
	shardDomain = "shard.bellwether.dev/"
	drainDomain = "drain.bellwether.dev/"
	sealDomain  = "seal.bellwether.dev/"
	ownerDomain = "owner.bellwether.dev/"
	// The resource stands between these: controllers copy annotations, such as those of a Deployment to its ReplicaSets.
	recordPrefix, recordSuffix = "owner.", ".bellwether.dev/"
)

// ShardLabel is the label that makes an object visible to a shard: its value is the shard's identity. Who may work on the object
// is for [OwnerAnnotation] to say.
func ShardLabel(ring string) string { return shardDomain + ring }

// DrainLabel is the label that asks a shard to let go of an object.
func DrainLabel(ring string) string { return drainDomain + ring }

// SealLabel is the label with a digest of the record of an object's owner. Annotations are copied and restored by others, as by
// kubectl rollout undo, and labels by hardly any: a record that this does not fit is none.
func SealLabel(ring string) string { return sealDomain + ring }

// OwnerAnnotation is the annotation in which v0.1 has the record of an object's owner. It is read and written beside
// [RecordAnnotation], so that replicas of both versions can run side by side.
func OwnerAnnotation(ring string) string { return ownerDomain + ring }

// RecordAnnotation is the annotation with the record of the owner of an object of a resource.
func RecordAnnotation(ring string, resource schema.GroupResource) string {
	return recordPrefix + resource.String() + recordSuffix + ring
}

// drainValue is what the sharder sets the drain label to, unless the record names who is next: then
// it is the seal of that record. Any value, the empty one too, is a drain.
const drainValue = "true"

// names are those of one ring, made once. record is for the objects of one resource, and empty where that does not matter.
type names struct{ ring, shard, drain, seal, owner, record string }

func namesOf(ring string) names {
	return names{ring: ring, shard: ShardLabel(ring), drain: DrainLabel(ring), seal: SealLabel(ring), owner: OwnerAnnotation(ring)}
}

// of returns the names for the objects of a resource.
func (n names) of(resource schema.GroupResource) names {
	n.record = RecordAnnotation(n.ring, resource)
	return n
}

// isRecord reports whether an annotation is for records of objects of some resource of the ring.
func (n names) isRecord(annotation string) bool {
	domain, ring, _ := strings.Cut(annotation, "/")
	return ring == n.ring && strings.HasPrefix(domain, recordPrefix) && strings.HasSuffix(domain+"/", recordSuffix) && annotation != n.owner
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
