package sharder

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// fieldManager is who the API server notes as the writer of labels and records.
const fieldManager = "bellwether-sharder"

// mergePatch returns the JSON Merge Patch that gives an object the labels and the record. It is refused if the object is another than the
// one with that UID, or not of that version any more: a decision on a stale object must not be carried out. An empty shard
// removes the label; a nil record leaves the record as it is.
func (n names) mergePatch(uid types.UID, version, shard string, drained bool, r *record) []byte {
	labels := map[string]any{n.shard: nil, n.drain: nil}
	if shard != "" {
		labels[n.shard] = shard
	}
	if drained {
		labels[n.drain] = drainValue
	}
	metadata := map[string]any{"labels": labels}
	if uid != "" { // client-go's fakes have neither
		metadata["uid"] = uid
	}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	if r != nil {
		metadata["annotations"] = map[string]string{n.owner: r.encode()}
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil { // impossible for these fields
		panic(fmt.Sprintf("sharder: encode a patch: %v", err))
	}
	return raw
}
