package proxy

import (
	"maps"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// hide removes the marks of rings, so that a program cannot copy them.
func hide(m *objectMeta) error {
	m.labels, m.annotations = api.WithoutMarks(m.labels), api.WithoutMarks(m.annotations)
	return nil
}

// keep gives the metadata of an update exactly the marks that the object has.
func keep(m *objectMeta, current objectMeta) {
	m.labels = withMarksOf(m.labels, current.labels)
	m.annotations = withMarksOf(m.annotations, current.annotations)
}

// withMarksOf returns labels or annotations with the marks of current instead of their own.
func withMarksOf(wanted, current map[string]string) map[string]string {
	merged := api.WithoutMarks(wanted)
	unmarked := api.WithoutMarks(current)
	for key, value := range current {
		if _, ok := unmarked[key]; ok {
			continue
		}
		if merged == nil {
			merged = map[string]string{}
		}
		merged[key] = value
	}
	return merged
}

// withoutNil returns a map that is not nil.
func withoutNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return maps.Clone(m)
}

// isMark reports whether rings write a label or an annotation with this key.
func isMark(key string) bool { return len(api.WithoutMarks(map[string]string{key: ""})) == 0 }
