package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// TestEarlierRecordsAreReadWhole has a record with every field, as an earlier version wrote it. This
// version must read all of it, and write the same: a controller that takes over during an upgrade
// continues the fence from it.
func TestEarlierRecordsAreReadWhole(t *testing.T) {
	t.Parallel()
	written, err := os.ReadFile("testdata/nodefence.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(written))
	decoder.DisallowUnknownFields()
	var fence v1alpha1.NodeFence
	require.NoError(t, decoder.Decode(&fence))

	again, err := json.Marshal(fence)
	require.NoError(t, err)
	assert.JSONEq(t, string(written), string(again))
	for field, value := range reflect.ValueOf(fence.Status).Fields() {
		assert.False(t, value.IsZero(), "the earlier record lacks %s", field.Name)
	}
	for field, value := range reflect.ValueOf(fence.Status.Progress).Fields() {
		assert.False(t, value.IsZero(), "the earlier record lacks %s", field.Name)
	}
	copied := fence.DeepCopy()
	assert.Equal(t, &fence, copied)
}
