package sharder

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// OwnershipOf says what the sharder and the shards read, and nothing of a record that they ignore.
func TestOwnershipIsThatOfTheRecord(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	keys := protocol.KeysOf("r").Of(resource)
	object := func(r protocol.Record, drain string) *metav1.PartialObjectMetadata {
		value := r.Encode()
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Annotations: map[string]string{keys.Record: value},
			Labels: map[string]string{keys.Shard: "a", keys.Seal: protocol.SealOf(value)},
		}}
		if drain == "seal" {
			drain = o.Labels[keys.Seal]
		}
		if drain != "" {
			o.Labels[keys.Drain] = drain
		}
		return o
	}
	b := protocol.OwnerEpoch{Shard: "b", LeaseUID: "lb", Epoch: 1}
	record := protocol.Record{UID: "u", Shard: "a", LeaseUID: "la", Epoch: 3, State: protocol.StateOwned}
	epoch := shardlease.Epoch{LeaseUID: "la", Number: 3}
	drained, free, probed, foreign := record, record, record, record
	drained.Next = &b
	free.State = protocol.StateFree
	probed.Left = []protocol.OwnerEpoch{b}
	foreign.UID = "other"
	for name, c := range map[string]struct {
		object *metav1.PartialObjectMetadata
		want   Ownership
	}{
		"owned":                 {object(record, ""), Ownership{Shard: "a", Epoch: epoch}},
		"handed over":           {object(drained, "seal"), Ownership{Shard: "a", Epoch: epoch, Successor: "b"}},
		"a drain set by others": {object(drained, "true"), Ownership{Shard: "a", Epoch: epoch}},
		"free":                  {object(free, ""), Ownership{Shard: "a", Epoch: epoch, Free: true}},
		"others are asked":      {object(probed, ""), Ownership{Shard: "a", Epoch: epoch, Left: []string{"b"}}},
	} {
		got, ok := OwnershipOf("r", resource, c.object)
		require.True(t, ok, name)
		assert.Equal(t, c.want, got, name)
	}
	_, ok := OwnershipOf("r", resource, object(foreign, ""))
	assert.False(t, ok, "a copy of another object's record")
	_, ok = OwnershipOf("other", resource, object(record, ""))
	assert.False(t, ok, "another ring")
}
