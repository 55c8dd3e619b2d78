package protocol

import (
	"strings"
	"testing"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNamesOfARingAreLabels(t *testing.T) {
	for _, ring := range []string{"r", "checksum", "my-ring-2", strings.Repeat("a", 63)} {
		assert.Empty(t, RingProblems(ring), ring)
		for _, name := range []string{
			api.ShardLabel(ring), api.DrainLabel(ring), api.SealLabel(ring),
			api.RecordAnnotation(ring, schema.GroupResource{Resource: "configmaps"}),
			api.RecordAnnotation(ring, schema.GroupResource{Group: "apps", Resource: "replicasets"}),
		} {
			assert.Empty(t, validation.IsQualifiedName(name), name)
		}
		assert.Empty(t, validation.IsValidLabelValue(ring))
	}
}

func TestIllegalNamesOfRingsAreRefused(t *testing.T) {
	for _, ring := range []string{"", "a/b", "a.b", "Upper", "-a", "a_b", "a b", "ä", strings.Repeat("a", 64)} {
		assert.NotEmpty(t, RingProblems(ring), ring)
	}
}

func TestShardIdentitiesAreLabelValues(t *testing.T) {
	assert.Empty(t, OwnerEpoch{Shard: "controller-0", Epoch: 1}.problem())
	for _, shard := range []string{"", "a/b", "a b", "-a", strings.Repeat("a", 64)} {
		assert.NotEmpty(t, OwnerEpoch{Shard: shard, Epoch: 1}.problem(), shard)
	}
}
