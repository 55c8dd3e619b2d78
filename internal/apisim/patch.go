package apisim

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxOperations is how many operations a JSON Patch may have.
const maxOperations = 10_000

func (s *Server) patch(t target, contentType string, body []byte, dry bool) (*Object, status) {
	old := s.data.objects[t.key()]
	if old == nil {
		return nil, apierrors.NewNotFound(t.group(), t.name)
	}
	content := old.Content()
	switch kind, _, _ := strings.Cut(contentType, ";"); types.PatchType(kind) {
	case types.MergePatchType, types.StrategicMergePatchType: // which differ on lists only
		var patch map[string]any
		if err := utiljson.Unmarshal(body, &patch); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		content = merge(content, patch).(map[string]any)
	case types.JSONPatchType:
		var operations []operation
		if err := json.Unmarshal(body, &operations); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		if n := len(operations); n > maxOperations {
			return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a "+
				"JSON patch is %d, got %d", maxOperations, n))
		}
		for _, op := range operations {
			changed, err := op.apply(content)
			if err != nil {
				return nil, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
					fmt.Sprintf("%s %s: %v", op.Op, op.Path, err))
			}
			content = changed.(map[string]any)
		}
	default:
		return nil, failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: "+
				"application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json")
	}
	o := treeObject(content).copy()
	if o.GetName() != t.name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	}
	if o.GetUID() != old.GetUID() { // unlike a PUT's, which is a precondition
		return nil, apierrors.NewInvalid(t.kind(), t.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "uid"), string(o.GetUID()), "field is immutable"),
		})
	}
	return s.replace(t, old, o, dry)
}

// merge is JSON Merge Patch (RFC 7386).
func merge(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object := map[string]any{}
	if before, ok := target.(map[string]any); ok {
		object = maps.Clone(before)
	}
	for name, value := range fields {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = merge(object[name], value)
		}
	}
	return object
}

// operation is one of JSON Patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

// apply returns the document after the operation. Both share what has not changed.
func (o operation) apply(document any) (any, error) {
	path, err := pointer(o.Path)
	if err != nil {
		return nil, err
	}
	var value any
	switch o.Op {
	case "add", "replace", "test":
		if err := utiljson.Unmarshal(o.Value, &value); err != nil {
			return nil, fmt.Errorf("value: %w", err)
		}
	case "copy", "move":
		from, err := pointer(o.From)
		if err != nil {
			return nil, err
		}
		var exists bool
		if value, exists = lookup(document, from); !exists {
			return nil, errNothingThere
		}
		if o.Op == "move" {
			if document, err = edit(document, from, remove); err != nil {
				return nil, err
			}
		}
	}
	switch o.Op {
	case "add", "copy", "move":
		return edit(document, path, add(value))
	case "replace":
		return edit(document, path, replace(value))
	case "remove":
		return edit(document, path, remove)
	case "test":
		if got, _ := lookup(document, path); !reflect.DeepEqual(got, value) {
			return nil, fmt.Errorf("test failed: the value is %v", got)
		}
		return document, nil
	}
	return nil, errors.New("unknown operation")
}

var errNothingThere = errors.New("there is nothing at this path")

// pointer parses a JSON Pointer (RFC 6901) to something below the document.
func pointer(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("path %q does not begin with /", path)
	}
	steps := strings.Split(path[1:], "/")
	for i, step := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps, nil
}

func lookup(node any, path []string) (any, bool) {
	for _, step := range path {
		switch container := node.(type) {
		case map[string]any:
			child, exists := container[step]
			if !exists {
				return nil, false
			}
			node = child
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(container) {
				return nil, false
			}
			node = container[i]
		default:
			return nil, false
		}
	}
	return node, true
}

// edit replaces the container at the end of the path with what change makes of it.
func edit(node any, path []string, change func(container any, step string) (any, error)) (any, error) {
	if len(path) == 1 {
		return change(node, path[0])
	}
	child, exists := lookup(node, path[:1])
	if !exists {
		return nil, errNothingThere
	}
	child, err := edit(child, path[1:], change)
	if err != nil {
		return nil, err
	}
	return replace(child)(node, path[0])
}

func add(value any) func(any, string) (any, error) {
	return func(container any, step string) (any, error) {
		list, ok := container.([]any)
		if !ok {
			return replace(value)(container, step)
		}
		i, err := strconv.Atoi(step)
		if step == "-" {
			i, err = len(list), nil
		}
		if err != nil || i < 0 || i > len(list) {
			return nil, errNothingThere
		}
		return slices.Insert(slices.Clone(list), i, value), nil
	}
}

// replace also sets a missing key, as the real server does against the letter of the RFC.
func replace(value any) func(any, string) (any, error) {
	return func(container any, step string) (any, error) {
		switch c := container.(type) {
		case map[string]any:
			c = maps.Clone(c)
			c[step] = value
			return c, nil
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(c) {
				c = slices.Clone(c)
				c[i] = value
				return c, nil
			}
		}
		return nil, errNothingThere
	}
}

func remove(container any, step string) (any, error) {
	if _, exists := lookup(container, []string{step}); !exists {
		return nil, errNothingThere
	}
	switch c := container.(type) {
	case map[string]any:
		c = maps.Clone(c)
		delete(c, step)
		return c, nil
	case []any:
		i, _ := strconv.Atoi(step)
		return slices.Delete(slices.Clone(c), i, i+1), nil
	}
	return nil, errNothingThere
}
