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
		want   recordState
	}{
		"nothing has happened": {func(*metav1.ObjectMeta) {}, recordState{now, true, true}},
		"a Deployment's annotations are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, deployments, "v", other).Annotations)
		}, recordState{now, true, true}},
		"the annotations of another of its kind are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, n, "v", other).Annotations)
		}, recordState{}},
		"it is a copy of another, labels and all": {
			func(o *metav1.ObjectMeta) { *o = *written(t, n, "v", other); o.UID = "u" }, recordState{},
		},
		"its earlier annotations are restored": {
			func(o *metav1.ObjectMeta) { o.Annotations = written(t, n, "u", old).Annotations }, recordState{},
		},
		"its annotations from before are restored": {
			func(o *metav1.ObjectMeta) { o.Annotations = map[string]string{n.Owner: old.Encode()} }, recordState{},
		},
		"its present ones are": {
			func(o *metav1.ObjectMeta) {
				o.Annotations = written(t, n, "u", now).Annotations
			}, recordState{now, true, true},
		},
		"its seal is removed": {
			func(o *metav1.ObjectMeta) { delete(o.Labels, n.Seal) }, recordState{},
		},
		"its seal is changed": {func(o *metav1.ObjectMeta) { o.Labels[n.Seal] = "0" }, recordState{}},
		"its record is removed": {
			func(o *metav1.ObjectMeta) { delete(o.Annotations, n.Record) }, recordState{},
		},
		"its record is removed where v0.1 has it": {
			func(o *metav1.ObjectMeta) { delete(o.Annotations, n.Owner) }, recordState{},
		},
		"its record is garbled": {
			func(o *metav1.ObjectMeta) { o.Annotations[n.Record] = "x" }, recordState{},
		},
		"its record is garbled where v0.1 has it": {
			func(o *metav1.ObjectMeta) { o.Annotations[n.Owner] = "x" }, recordState{},
		},
		"v0.1 writes a record, after this version": {
			func(o *metav1.ObjectMeta) { o.Annotations[n.Owner] = old.Encode() }, recordState{old, true, false},
		},
		"v0.1 has written its record, and none since": {
			func(o *metav1.ObjectMeta) { delete(o.Annotations, n.Record); delete(o.Labels, n.Seal) },
			recordState{now, true, false},
		},
	} {
		o := written(t, n, "u", now)
		test.change(o)
		assert.Equal(t, test.want, n.recordStateOf(o), name)
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
