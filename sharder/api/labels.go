package api

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Domains of the labels and annotations that a ring writes on objects. The name of the ring
// follows, so that one object can be in several rings.
const (
	shardDomain = "shard.bellwether.dev/"
	drainDomain = "drain.bellwether.dev/"
	sealDomain  = "seal.bellwether.dev/"
	// The resource is part of the key because controllers copy annotations, for example from a
	// Deployment to its ReplicaSets.
	recordPrefix, recordSuffix = "owner.", ".bellwether.dev/"
)

// ShardLabel is the label that makes an object visible to a shard. Its value is the shard's
// identity. [RecordAnnotation], not this label, decides who may work on the object.
func ShardLabel(ring string) string { return shardDomain + ring }

// DrainLabel is the label that asks a shard to let go of an object.
func DrainLabel(ring string) string { return drainDomain + ring }

// SealLabel is the label with a digest of an object's owner record. A record that does not match
// the seal is invalid, because annotations are often copied and restored, for example by kubectl
// rollout undo, while labels hardly ever are.
func SealLabel(ring string) string { return sealDomain + ring }

// RecordAnnotation is the annotation with the owner record of an object of this resource.
func RecordAnnotation(ring string, resource schema.GroupResource) string {
	return recordPrefix + resource.String() + recordSuffix + ring
}

// WithoutMarks returns a copy of labels or annotations without those that rings write, whatever the
// ring and the resource. It returns nil for nil. Use it to copy the labels of an object of a ring:
// the ring's own labels change with each handover, which replaces all Pods of a template that has
// them.
func WithoutMarks(from map[string]string) map[string]string {
	kept := maps.Clone(from)
	maps.DeleteFunc(kept, func(key, _ string) bool { return isMark(key) })
	return kept
}

// isMark reports whether rings write a label or annotation with this key.
func isMark(key string) bool {
	domain, _, named := strings.Cut(key, "/")
	switch domain += "/"; domain {
	case shardDomain, drainDomain, sealDomain:
		return named
	}
	return named && strings.HasPrefix(domain, recordPrefix) && strings.HasSuffix(domain, recordSuffix)
}
