package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What a ring writes is left out of a copy, and nothing else: neither what users have named alike, nor
// labels of this project that are not a ring's.
func TestACopyWithoutMarksHasAllElse(t *testing.T) {
	all := map[string]string{
		ShardLabel("r"): "a", DrainLabel("r"): "true", SealLabel("another"): "1",
		RecordAnnotation("r", schema.GroupResource{Resource: "configmaps"}):                 "{}",
		RecordAnnotation("r", schema.GroupResource{Group: "apps", Resource: "deployments"}): "{}",
		"app": "x", "example.bellwether.dev/digest": "wanted", "shard.example.com/r": "a", "owner.bellwether.dev": "x",
		"shard": "1", "bellwether.dev/written": "1", "owner.example.com/r": "me",
	}
	kept := map[string]string{
		"app": "x", "example.bellwether.dev/digest": "wanted", "shard.example.com/r": "a", "owner.bellwether.dev": "x",
		"shard": "1", "bellwether.dev/written": "1", "owner.example.com/r": "me",
	}
	assert.Equal(t, kept, WithoutMarks(all))
	assert.Len(t, all, 12, "the argument stays as it is")
	assert.Nil(t, WithoutMarks(nil))
}
