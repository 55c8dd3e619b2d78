package protocol

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// written returns an object with the labels and annotations that a patch with a record writes.
func written(t *testing.T, n Keys, uid types.UID, r Record) *metav1.ObjectMeta {
	var patch struct{ Metadata metav1.ObjectMeta }
	require.NoError(t, json.Unmarshal(n.MergePatch("", "", r.Shard, false, &r), &patch))
	patch.Metadata.UID = uid
	maps.DeleteFunc(patch.Metadata.Labels, func(_, value string) bool { return value == "" })
	return &patch.Metadata
}

func TestARecordCountsIfItIsTheOneThatWasWrittenLast(t *testing.T) {
	n := KeysOf("r").Of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	deployments := KeysOf("r").Of(schema.GroupResource{Group: "apps", Resource: "deployments"})
	old := Record{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned}
	now := Record{UID: "u", Shard: "b", LeaseUID: "m", Epoch: 1, State: StateOwned}
	other := Record{UID: "v", Shard: "c", LeaseUID: "k", Epoch: 1, State: StateOwned}
	for name, test := range map[string]struct {
		change func(o *metav1.ObjectMeta)
		want   *Record
	}{
		"nothing has happened": {func(*metav1.ObjectMeta) {}, &now},
		"a Deployment's annotations are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, deployments, "v", other).Annotations)
		}, &now},
		"the annotations of another of its kind are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, n, "v", other).Annotations)
		}, nil},
		"it is a copy of another, labels and all": {
			func(o *metav1.ObjectMeta) { *o = *written(t, n, "v", other); o.UID = "u" }, nil,
		},
		"its earlier annotations are restored": {
			func(o *metav1.ObjectMeta) { o.Annotations = written(t, n, "u", old).Annotations }, nil,
		},
		"its present ones are": {
			func(o *metav1.ObjectMeta) {
				o.Annotations = written(t, n, "u", now).Annotations
			}, &now,
		},
		"its seal is removed": {
			func(o *metav1.ObjectMeta) { delete(o.Labels, n.Seal) }, nil,
		},
		"its seal is changed": {func(o *metav1.ObjectMeta) { o.Labels[n.Seal] = "0" }, nil},
		"its record is removed": {
			func(o *metav1.ObjectMeta) { delete(o.Annotations, n.Record) }, nil,
		},
		"its record is garbled": {
			func(o *metav1.ObjectMeta) { o.Annotations[n.Record] = "x" }, nil,
		},
	} {
		o := written(t, n, "u", now)
		test.change(o)
		r, ok := n.RecordOf(o)
		if assert.Equal(t, test.want != nil, ok, name) && ok {
			assert.Equal(t, *test.want, r, name)
		}
	}
}

func TestRecordsOfOthersAreForeignUnlessTheyAreOwners(t *testing.T) {
	deployments := KeysOf("r").Of(schema.GroupResource{Group: "apps", Resource: "deployments"})
	replicaSets := KeysOf("r").Of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	otherRing := KeysOf("s").Of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	deployment := written(t, deployments, "d", Record{UID: "d", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned})
	replicaSet := written(t, replicaSets, "s", Record{UID: "s", Shard: "a", LeaseUID: "l", Epoch: 1, State: StateOwned})
	replicaSet.OwnerReferences = []metav1.OwnerReference{{UID: "d"}}
	assert.Empty(t, deployments.foreign(deployment))
	maps.Copy(replicaSet.Annotations, deployment.Annotations) // as its controller does
	replicaSet.Annotations[otherRing.Record] = replicaSet.Annotations[replicaSets.Record]
	assert.Empty(t, replicaSets.foreign(replicaSet))
	deployment.Annotations = maps.Clone(replicaSet.Annotations) // as kubectl rollout undo does
	assert.Equal(t, []string{replicaSets.Record}, deployments.foreign(deployment))
	deployment.Annotations[replicaSets.Record] = "x"
	assert.Equal(t, []string{replicaSets.Record}, deployments.foreign(deployment))
}
