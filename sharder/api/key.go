package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KeyFunc appends to dst the key that determines an object's place on the ring, and returns the
// result. Once the ring is settled, objects with equal keys are with the same shard. All replicas
// must use the same function. It must depend only on what never changes in the life of an object,
// because the next scan moves an object whose key has changed. It is called from several goroutines
// and must not change the object.
type KeyFunc func(dst []byte, kind schema.GroupKind, o metav1.Object) []byte

// ObjectKey is the default [KeyFunc]: <group>/<kind>/<namespace>/<name>/<UID>. Only the last part
// can contain a slash, so different objects have different keys. It allocates nothing if dst has
// room.
func ObjectKey(dst []byte, kind schema.GroupKind, o metav1.Object) []byte {
	dst = append(append(dst, kind.Group...), '/')
	dst = append(append(dst, kind.Kind...), '/')
	dst = append(append(dst, o.GetNamespace()...), '/')
	dst = append(append(dst, o.GetName()...), '/')
	return append(dst, o.GetUID()...)
}

// NamespaceKey is a [KeyFunc] that keeps the objects of a namespace, of all kinds, together. Do not
// use it for cluster-scoped objects: it would put all of them on one shard.
func NamespaceKey(dst []byte, _ schema.GroupKind, o metav1.Object) []byte {
	return append(dst, o.GetNamespace()...)
}
