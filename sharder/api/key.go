package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KeyFunc appends to dst what an object's place on the ring follows from, and returns the result. Objects of equal keys are always
// with the same shard, once the ring is settled. It has to be the same in all replicas, and follow from what never changes in the life of an object: an
// object whose key changes is moved by the next scan. It is called from several goroutines and must not change the object.
type KeyFunc func(dst []byte, kind schema.GroupKind, o metav1.Object) []byte

// ObjectKey is the default [KeyFunc]: <group>/<kind>/<namespace>/<name>/<UID>. None but the last part can contain a slash, so different
// objects have different keys. It allocates nothing if dst has room.
func ObjectKey(dst []byte, kind schema.GroupKind, o metav1.Object) []byte {
	dst = append(append(dst, kind.Group...), '/')
	dst = append(append(dst, kind.Kind...), '/')
	dst = append(append(dst, o.GetNamespace()...), '/')
	dst = append(append(dst, o.GetName()...), '/')
	return append(dst, o.GetUID()...)
}

// NamespaceKey is a [KeyFunc] that keeps the objects of a namespace together, whatever their kinds. For cluster-scoped objects use
// another: they would all be with one shard.
func NamespaceKey(dst []byte, _ schema.GroupKind, o metav1.Object) []byte {
	return append(dst, o.GetNamespace()...)
}
