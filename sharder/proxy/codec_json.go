package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

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
	if object["rows"] != nil && bytes.HasPrefix(object["apiVersion"], []byte(`"meta.k8s.io/`)) {
		var table bytes.Buffer
		err := c.editList(&table, bytes.NewReader(data), f)
		return table.Bytes(), err
	}
	if changed, err := editMetadata(object, f); err != nil || !changed {
		return data, err
	}
	return joined(object), nil
}

// joined encodes fields without looking at their values, which json.Marshal would read again.
func joined(object fields) []byte {
	out := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(name)
		out = append(append(append(out, key...), ':'), object[name]...)
	}
	return append(out, '}')
}

// editList holds one object in memory at a time.
func (c jsonCodec) editList(to io.Writer, from io.Reader, f editor) error {
	list := &jsonCopy{json.NewDecoder(from), bufio.NewWriterSize(to, 32<<10)}
	err := list.each('{', '}', func() error {
		name, err := list.in.Token()
		if err != nil {
			return err
		}
		key, _ := json.Marshal(name)
		_, _ = list.out.Write(append(key, ':'))
		edit, ok := map[any]func([]byte, editor) ([]byte, error){"items": c.edit, "rows": c.editRow}[name]
		if !ok {
			return list.one(func(value []byte, _ editor) ([]byte, error) { return value, nil }, f)
		}
		return list.each('[', ']', func() error { return list.one(edit, f) })
	})
	if err != nil {
		return fmt.Errorf("read a list: %w", err) // io.EOF by itself would count as its end
	}
	return list.out.Flush()
}

// editRow edits the object of a row of a table.
func (c jsonCodec) editRow(data []byte, f editor) ([]byte, error) {
	var row fields
	err := json.Unmarshal(data, &row)
	if object := row["object"]; err != nil || len(object) == 0 || object[0] != '{' {
		return data, err
	}
	if row["object"], err = c.edit(row["object"], f); err != nil {
		return nil, err
	}
	return joined(row), nil
}

// jsonCopy copies JSON value by value.
type jsonCopy struct {
	in  *json.Decoder
	out *bufio.Writer
}

// each copies an object or an array, each member or element by a function, or null.
func (j *jsonCopy) each(begin, end json.Delim, next func() error) error {
	switch token, err := j.in.Token(); {
	case err != nil:
		return err
	case token == nil:
		_, err := j.out.WriteString("null")
		return err
	case token != begin:
		return fmt.Errorf("must begin with %v (got %v)", begin, token)
	}
	_ = j.out.WriteByte(byte(begin))
	for first := true; j.in.More(); first = false {
		if !first {
			_ = j.out.WriteByte(',')
		}
		if err := next(); err != nil {
			return err
		}
	}
	_ = j.out.WriteByte(byte(end))
	_, err := j.in.Token()
	return err
}

// one copies a value, edited.
func (j *jsonCopy) one(edit func([]byte, editor) ([]byte, error), f editor) error {
	var value json.RawMessage
	if err := j.in.Decode(&value); err != nil {
		return err
	}
	data, err := edit(value, f)
	_, _ = j.out.Write(data)
	return err
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
	if len(m.owners) != len(before.owners) {
		set("ownerReferences", m.owners, len(m.owners) == 0)
	}
	object["metadata"] = joined(raw)
	return true, nil
}
