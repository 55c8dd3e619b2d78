package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FieldManager is the field manager of the sharder's patches.
const FieldManager = "bellwether-sharder"

// HangsAfter is the time from which an attempt holds up a worker too long, as one does whose patch
// waits for a webhook that cannot be reached.
const HangsAfter = time.Second

// MergePatch returns the JSON merge patch that sets an object's labels and record. The API server
// refuses it unless the object has this UID and version, because a decision on a stale object must
// not be carried out. An empty shard removes the label, and a nil record leaves the record as it
// is. With a record, the patch also removes the annotations in removed.
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
		annotations = map[string]any{n.Record: value}
		for _, key := range removed {
			annotations[key] = nil
		}
	}
	return encodePatch(uid, version, labels, annotations)
}

// StripPatch returns the patch that removes everything of the ring from an object.
func (n Keys) StripPatch(o metav1.Object) []byte {
	annotations := map[string]any{}
	for key := range o.GetAnnotations() {
		if n.isRecord(key) {
			annotations[key] = nil
		}
	}
	return encodePatch(
		o.GetUID(), o.GetResourceVersion(), map[string]any{n.Shard: nil, n.Drain: nil, n.Seal: nil}, annotations,
	)
}

// ErrPutBack means that a write has succeeded but has not had its effect.
var ErrPutBack = errors.New("the API server has stored something else, as an admission webhook may make it do")

// Applied returns [ErrPutBack] unless the answer to a patch has the labels and annotations that the
// patch sets, and none that it removes.
func Applied(patch []byte, answer metav1.Object) error {
	var sent struct {
		Metadata struct{ Labels, Annotations map[string]*string }
	}
	if err := json.Unmarshal(patch, &sent); err != nil {
		return err
	}
	for _, m := range []struct {
		sent   map[string]*string // nil: removed
		stored map[string]string
	}{{sent.Metadata.Labels, answer.GetLabels()}, {sent.Metadata.Annotations, answer.GetAnnotations()}} {
		for key, value := range m.sent {
			stored, has := m.stored[key]
			if has != (value != nil) || has && stored != *value {
				return fmt.Errorf("%w: %s is %q", ErrPutBack, key, stored)
			}
		}
	}
	return nil
}

// IsOutdated reports whether an error means that the object has changed since it was read, or was
// replaced by another of the same name, so that the caller must decide again. A refusal by a policy
// or schema may have the same code, but is not such an error.
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
