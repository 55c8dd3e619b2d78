package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// keepInMergePatch returns a merge patch, or a strategic one, that leaves the marks of current alone.
// pinned reports whether the result holds for this version of the object only, which it then names.
func keepInMergePatch(data []byte, current objectMeta) (_ []byte, pinned bool, err error) {
	var patch, meta fields
	if err := json.Unmarshal(data, &patch); err != nil || patch == nil {
		return nil, false, fmt.Errorf("must be an object (got %.40s)", data)
	}
	if replaces(patch) {
		return nil, false, errors.New("a directive would remove the ring's marks")
	}
	if raw, ok := patch["metadata"]; !ok {
		meta = fields{}
	} else if err := json.Unmarshal(raw, &meta); err != nil || meta == nil {
		return nil, false, fmt.Errorf("metadata: must be an object (got %.40s)", raw)
	}
	if replaces(meta) {
		return nil, false, errors.New("metadata: a directive would remove the ring's marks")
	}
	for field, have := range map[string]map[string]string{
		"labels": current.labels, "annotations": current.annotations,
	} {
		raw, ok := meta[field]
		if !ok {
			continue
		}
		var entries fields
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, false, fmt.Errorf("metadata.%s: must be an object or null (got %.40s)", field, raw)
		}
		switch {
		case entries == nil: // null removes all, so name all that are not marks
			entries, pinned = fields{}, true
			for key := range api.WithoutMarks(have) {
				entries[key] = json.RawMessage("null")
			}
		case slices.ContainsFunc(slices.Collect(maps.Keys(entries)), isDirective):
			return nil, false, fmt.Errorf("metadata.%s: a directive would remove the ring's marks", field)
		default:
			maps.DeleteFunc(entries, func(key string, _ json.RawMessage) bool { return isMark(key) })
		}
		meta[field], _ = json.Marshal(entries)
	}
	if _, named := meta["uid"]; !named {
		meta["uid"], _ = json.Marshal(current.uid) // another object may have this name by now
	}
	if _, named := meta["resourceVersion"]; named {
		pinned = false // the program has pinned it, and retries by itself
	} else if pinned {
		meta["resourceVersion"], _ = json.Marshal(current.resourceVersion)
	}
	if patch["metadata"], err = json.Marshal(meta); err != nil {
		return nil, false, err
	}
	data, err = json.Marshal(patch)
	return data, pinned, err
}

// replaces reports whether a strategic merge patch has a directive that removes fields that it does not name.
func replaces(entries fields) bool {
	return entries["$patch"] != nil || entries["$retainKeys"] != nil
}

func isDirective(key string) bool { return strings.HasPrefix(key, "$") }

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	From  string          `json:"from,omitempty"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// keepInJSONPatch is keepInMergePatch for a JSON patch, which may set or remove all labels at once: a
// program that sees no label has to.
func keepInJSONPatch(data []byte, current objectMeta) (_ []byte, pinned bool, err error) {
	var patch, kept []operation
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, false, err
	}
	for i, o := range patch {
		mark := markAt(o.Path)
		if mark || markAt(o.From) {
			if mark && o.Op != "move" { // which takes something from where it is
				continue
			}
			return nil, false, fmt.Errorf("operation %d: %s of %q to %q: rings keep their marks", i, o.Op,
				o.From, o.Path)
		}
		if (o.Op == "move" || o.Op == "copy") && holdsMarks(o.From) {
			return nil, false, fmt.Errorf("operation %d: %s of %q: rings keep their marks", i, o.Op, o.From)
		}
		var have map[string]string
		switch o.Path {
		case "/metadata/labels":
			have = current.labels
		case "/metadata/annotations":
			have = current.annotations
		case "", "/metadata":
			return nil, false, fmt.Errorf("operation %d: %s of %q would remove the ring's marks", i, o.Op, o.Path)
		default:
			kept = append(kept, o)
			continue
		}
		var value map[string]string
		switch o.Op {
		case "remove":
			o.Op = "replace"
		case "add", "replace", "test":
			if err := json.Unmarshal(o.Value, &value); err != nil {
				return nil, false, fmt.Errorf("operation %d: value: %w", i, err)
			}
		default:
			return nil, false, fmt.Errorf("operation %d: %s to %s would remove the ring's marks", i, o.Op, o.Path)
		}
		o.Value, _ = json.Marshal(withoutNil(withMarksOf(value, have)))
		kept, pinned = append(kept, o), true
	}
	tests := []operation{test("/metadata/uid", current.uid)} // another object may have this name by now
	if pinned {
		tests = append(tests, test("/metadata/resourceVersion", current.resourceVersion))
	}
	data, err = json.Marshal(slices.Concat(tests, kept))
	return data, pinned, err
}

func test(path, want string) operation {
	value, _ := json.Marshal(want)
	return operation{Op: "test", Path: path, Value: value}
}

// holdsMarks reports whether a JSON Pointer is that of something that has marks.
func holdsMarks(path string) bool {
	return slices.Contains([]string{"", "/metadata", "/metadata/labels", "/metadata/annotations"}, path)
}

// markAt reports whether a JSON Pointer (RFC 6901) is that of a mark.
func markAt(path string) bool {
	for _, field := range []string{"/metadata/labels/", "/metadata/annotations/"} {
		if key, ok := strings.CutPrefix(path, field); ok {
			return isMark(strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		}
	}
	return false
}
