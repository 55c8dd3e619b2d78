package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// jsonCodec reads JSON, and YAML, which it turns into JSON. It decodes only metadata.
type jsonCodec struct{}

type fields = map[string]json.RawMessage

func (jsonCodec) framer() runtime.Framer { return kubejson.Framer }

func (c jsonCodec) editEvent(data []byte, f editor) ([]byte, error) {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return nil, err
	}
	var err error
	if event.Object, err = c.edit(event.Object, f); err != nil {
		return nil, err
	}
	data, err = json.Marshal(event)
	return append(data, '\n'), err
}

func (c jsonCodec) edit(data []byte, f editor) ([]byte, error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || trimmed[0] != '{' {
		converted, err := yaml.ToJSON(data)
		if err != nil {
			return nil, err
		}
		data = converted
	}
	var object fields
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	changed := false
	var err error
	if items, ok := object["items"]; ok && isList(object) {
		object["items"], changed, err = c.editEach(items, f)
	} else if rows, ok := object["rows"]; ok && kindOf(object) == "Table" {
		object["rows"], changed, err = c.editRows(rows, f)
	} else {
		changed, err = editMetadata(object, f)
	}
	if err != nil || !changed {
		return data, err
	}
	return json.Marshal(object)
}

func kindOf(object fields) (kind string) {
	_ = json.Unmarshal(object["kind"], &kind)
	return kind
}

// isList reports whether the elements of items are objects. A kind that is no list may have a field of
// that name, and a name that ends like that of one; but its objects have names.
func isList(object fields) bool {
	var named struct {
		Name string `json:"name"`
	}
	return strings.HasSuffix(kindOf(object), listSuffix) &&
		(len(object["metadata"]) == 0 || json.Unmarshal(object["metadata"], &named) == nil && named.Name == "")
}

// listSuffix ends the kind of every list.
const listSuffix = "List"

// editEach edits the elements of a JSON array.
func (c jsonCodec) editEach(data json.RawMessage, f editor) (_ json.RawMessage, changed bool, err error) {
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, false, err
	}
	for i, one := range all {
		var object fields
		if err := json.Unmarshal(one, &object); err != nil {
			return nil, false, err
		}
		edited, err := editMetadata(object, f)
		if err != nil {
			return nil, false, err
		}
		if !edited {
			continue
		}
		if all[i], err = json.Marshal(object); err != nil {
			return nil, false, err
		}
		changed = true
	}
	if !changed {
		return data, false, nil
	}
	data, err = json.Marshal(all)
	return data, true, err
}

// editRows edits the object of each row of a table.
func (c jsonCodec) editRows(data json.RawMessage, f editor) (_ json.RawMessage, changed bool, err error) {
	var rows []fields
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		var object fields
		if len(row["object"]) == 0 || json.Unmarshal(row["object"], &object) != nil || object == nil {
			continue
		}
		edited, err := editMetadata(object, f)
		if err != nil {
			return nil, false, err
		}
		if edited {
			if row["object"], err = json.Marshal(object); err != nil {
				return nil, false, err
			}
			changed = true
		}
	}
	if !changed {
		return data, false, nil
	}
	data, err = json.Marshal(rows)
	return data, true, err
}

// editMetadata edits the metadata of an object in place.
func editMetadata(object fields, f editor) (changed bool, err error) {
	raw := fields{}
	if data := object["metadata"]; len(data) > 0 && string(data) != "null" {
		if err := json.Unmarshal(data, &raw); err != nil {
			return false, fmt.Errorf("metadata: %w", err)
		}
	}
	var m, before objectMeta
	for name, into := range map[string]any{
		"name": &m.name, "namespace": &m.namespace, "generateName": &m.generateName, "uid": &m.uid,
		"resourceVersion": &m.resourceVersion, "labels": &m.labels, "annotations": &m.annotations,
		"ownerReferences": &m.owners,
	} {
		if value, ok := raw[name]; ok {
			if err := json.Unmarshal(value, into); err != nil {
				return false, fmt.Errorf("metadata.%s: %w", name, err)
			}
		}
	}
	before = m.clone()
	if err := f(&m); err != nil {
		return false, err
	}
	if m.equal(before) {
		return false, nil
	}
	set := func(name string, value any, empty bool) {
		if empty {
			delete(raw, name)
			return
		}
		raw[name], _ = json.Marshal(value) // of strings and booleans
	}
	set("name", m.name, m.name == "")
	set("uid", m.uid, m.uid == "")
	set("resourceVersion", m.resourceVersion, m.resourceVersion == "")
	set("labels", m.labels, len(m.labels) == 0)
	set("annotations", m.annotations, len(m.annotations) == 0)
	set("ownerReferences", m.owners, len(m.owners) == 0)
	object["metadata"], err = json.Marshal(raw)
	return true, err
}
