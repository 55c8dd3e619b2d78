package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The keys must not change. A change moves objects, and replicas of two versions would disagree.
func TestKeysStand(t *testing.T) {
	deployment := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d", UID: "u"}}
	node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
	assert.Equal(
		t, "apps/Deployment/ns/d/u",
		string(ObjectKey(nil, schema.GroupKind{Group: "apps", Kind: "Deployment"}, deployment)),
	)
	assert.Equal(t, "/Node//n/u", string(ObjectKey(nil, schema.GroupKind{Kind: "Node"}, node)))
	assert.Equal(t, "ns", string(NamespaceKey(nil, schema.GroupKind{}, deployment)))
}

func TestKeysOfDifferentObjectsDiffer(t *testing.T) {
	object := func(ns, name, uid string) metav1.Object {
		return &metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID(uid)}
	}
	kind := schema.GroupKind{Group: "g", Kind: "K"}
	keys := map[string]bool{}
	for _, k := range []string{
		string(ObjectKey(nil, kind, object("a", "b", "1"))),
		string(ObjectKey(nil, kind, object("", "a", "b/1"))),
		string(ObjectKey(nil, kind, object("ab", "", "1"))),
		string(ObjectKey(nil, kind, object("", "ab", "1"))),
		string(ObjectKey(nil, schema.GroupKind{Kind: "gK"}, object("a", "b", "1"))),
		string(ObjectKey(nil, kind, object("a", "b", "2"))),
	} {
		assert.False(t, keys[k], k)
		keys[k] = true
	}
}

func TestBuildingAKeyAllocatesNothing(t *testing.T) {
	var o metav1.Object = &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "some-namespace", Name: "some-name", UID: "7f1ba6ac-2b38-4b4f-a7e6-0d8ad4c8a2a1",
		},
	}
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	buffer := make([]byte, 0, 256)
	assert.Zero(t, testing.AllocsPerRun(100, func() { buffer = ObjectKey(buffer[:0], kind, o) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { buffer = NamespaceKey(buffer[:0], kind, o) }))
}

func BenchmarkObjectKey(b *testing.B) {
	var o metav1.Object = &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "some-namespace", Name: "some-name", UID: "7f1ba6ac-2b38-4b4f-a7e6-0d8ad4c8a2a1",
		},
	}
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	var buffer []byte
	b.ReportAllocs()
	for b.Loop() {
		buffer = ObjectKey(buffer[:0], kind, o)
	}
}
