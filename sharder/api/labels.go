package api

import "k8s.io/apimachinery/pkg/runtime/schema"

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
