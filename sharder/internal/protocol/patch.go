package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager is who the API server notes as the writer of labels and records.
const FieldManager = "bellwether-sharder"

// MergePatch returns the JSON Merge Patch that gives an object the labels and the record. It is refused if the object is another than the
// one with that UID, or not of that version any more: a decision on a stale object must not be carried out. An empty shard
// removes the label; a nil record leaves the record as it is. removed are annotations to remove with it.
func (n Keys) MergePatch(uid types.UID, version, shard string, drained bool, r *Record, removed ...string) []byte {
	labels := map[string]any{n.Shard: nil, n.Drain: nil}
	if shard != "" {
		labels[n.Shard] = shard
	}
	if drained {
		labels[n.Drain] = DrainValue
	}
	var annotations map[string]any
	if r != nil {
		value := r.Encode()
		labels[n.Seal] = SealOf(value)
		if drained && r.Next != nil {
			labels[n.Drain] = labels[n.Seal]
		}
		annotations = map[string]any{n.Owner: value, n.Record: value}
		for _, key := range removed {
			annotations[key] = nil
		}
	}
	return encodePatch(uid, version, labels, annotations)
}

// StripPatch returns the patch that removes everything of the ring from an object.
func (n Keys) StripPatch(o metav1.Object) []byte {
	annotations := map[string]any{n.Owner: nil}
	for key := range o.GetAnnotations() {
		if n.isRecord(key) {
			annotations[key] = nil
		}
	}
	return encodePatch(o.GetUID(), o.GetResourceVersion(), map[string]any{n.Shard: nil, n.Drain: nil, n.Seal: nil}, annotations)
}

// IsOutdated reports whether an error says that the object has changed since it was read, or is
// another one of the same name: what is to be done has to be decided anew. That a policy or a
// schema refuses the patch, which may have the same code, is no such error.
func IsOutdated(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}

func encodePatch(uid types.UID, version string, labels, annotations map[string]any) []byte {
	metadata := map[string]any{"labels": labels}
	if uid != "" { // client-go's fakes have neither
		metadata["uid"] = uid
	}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode a patch: %v", err))
	}
	return raw
}
