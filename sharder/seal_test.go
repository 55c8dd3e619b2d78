package sharder

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

// written returns an object that carries what a patch with a record has written.
func written(t *testing.T, n names, uid types.UID, r record) *metav1.ObjectMeta {
	var patch struct{ Metadata metav1.ObjectMeta }
	require.NoError(t, json.Unmarshal(n.mergePatch("", "", r.Shard, false, &r), &patch))
	patch.Metadata.UID = uid
	maps.DeleteFunc(patch.Metadata.Labels, func(_, value string) bool { return value == "" })
	return &patch.Metadata
}

func TestARecordCountsIfItIsTheOneThatWasWrittenLast(t *testing.T) {
	n := namesOf("r").of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	deployments := namesOf("r").of(schema.GroupResource{Group: "apps", Resource: "deployments"})
	old := record{UID: "u", Shard: "a", LeaseUID: "l", Epoch: 1, State: owned}
	now := record{UID: "u", Shard: "b", LeaseUID: "m", Epoch: 1, State: owned}
	other := record{UID: "v", Shard: "c", LeaseUID: "k", Epoch: 1, State: owned}
	for name, test := range map[string]struct {
		change func(o *metav1.ObjectMeta)
		want   paper
	}{
		"nothing has happened": {func(*metav1.ObjectMeta) {}, paper{now, true, true}},
		"a Deployment's annotations are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, deployments, "v", other).Annotations)
		}, paper{now, true, true}},
		"the annotations of another of its kind are copied": {func(o *metav1.ObjectMeta) {
			maps.Copy(o.Annotations, written(t, n, "v", other).Annotations)
		}, paper{}},
		"it is a copy of another, labels and all":     {func(o *metav1.ObjectMeta) { *o = *written(t, n, "v", other); o.UID = "u" }, paper{}},
		"its earlier annotations are restored":        {func(o *metav1.ObjectMeta) { o.Annotations = written(t, n, "u", old).Annotations }, paper{}},
		"its annotations from before are restored":    {func(o *metav1.ObjectMeta) { o.Annotations = map[string]string{n.owner: old.encode()} }, paper{}},
		"its present ones are":                        {func(o *metav1.ObjectMeta) { o.Annotations = written(t, n, "u", now).Annotations }, paper{now, true, true}},
		"its seal is removed":                         {func(o *metav1.ObjectMeta) { delete(o.Labels, n.seal) }, paper{}},
		"its seal is changed":                         {func(o *metav1.ObjectMeta) { o.Labels[n.seal] = "0" }, paper{}},
		"its record is removed":                       {func(o *metav1.ObjectMeta) { delete(o.Annotations, n.record) }, paper{}},
		"its record is removed where v0.1 has it":     {func(o *metav1.ObjectMeta) { delete(o.Annotations, n.owner) }, paper{}},
		"its record is garbled":                       {func(o *metav1.ObjectMeta) { o.Annotations[n.record] = "x" }, paper{}},
		"its record is garbled where v0.1 has it":     {func(o *metav1.ObjectMeta) { o.Annotations[n.owner] = "x" }, paper{}},
		"v0.1 writes a record, after this version":    {func(o *metav1.ObjectMeta) { o.Annotations[n.owner] = old.encode() }, paper{old, true, false}},
		"v0.1 has written its record, and none since": {func(o *metav1.ObjectMeta) { delete(o.Annotations, n.record); delete(o.Labels, n.seal) }, paper{now, true, false}},
	} {
		o := written(t, n, "u", now)
		test.change(o)
		assert.Equal(t, test.want, n.paperOf(o), name)
	}
}

func TestRecordsOfOthersAreForeignUnlessTheyAreOwners(t *testing.T) {
	deployments := namesOf("r").of(schema.GroupResource{Group: "apps", Resource: "deployments"})
	replicaSets := namesOf("r").of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	otherRing := namesOf("s").of(schema.GroupResource{Group: "apps", Resource: "replicasets"})
	deployment := written(t, deployments, "d", record{UID: "d", Shard: "a", LeaseUID: "l", Epoch: 1, State: owned})
	replicaSet := written(t, replicaSets, "s", record{UID: "s", Shard: "a", LeaseUID: "l", Epoch: 1, State: owned})
	replicaSet.OwnerReferences = []metav1.OwnerReference{{UID: "d"}}
	assert.Empty(t, deployments.foreign(deployment))
	maps.Copy(replicaSet.Annotations, deployment.Annotations) // as its controller does
	replicaSet.Annotations[otherRing.record] = replicaSet.Annotations[replicaSets.record]
	assert.Empty(t, replicaSets.foreign(replicaSet))
	deployment.Annotations = maps.Clone(replicaSet.Annotations) // as kubectl rollout undo does
	assert.Equal(t, []string{replicaSets.record}, deployments.foreign(deployment))
	deployment.Annotations[replicaSets.record] = "x"
	assert.Equal(t, []string{replicaSets.record}, deployments.foreign(deployment))
}
