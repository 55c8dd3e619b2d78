package nodeconfig

import (
	"maps"
	"slices"
	"strings"
)

// Names of objects and their data keys.
const (
	objectPrefix   = "fence-config-"
	nodePrefix     = objectPrefix + "node-"
	typePrefix     = objectPrefix + "type-"
	settingsKey    = "config.properties"
	methodPrefix   = "fence-method-"
	templatePrefix = methodPrefix + "template-"
	templateKey    = "template.properties"
	cloudTemplate  = templatePrefix + "cloud"
)

func nodeObject(node string) string   { return nodePrefix + node }
func legacyObject(node string) string { return objectPrefix + node }

// typeObject returns the name of the object for a value of the label type, or "" without a type.
func typeObject(label string) string {
	if label == "" {
		return ""
	}
	return typePrefix + strings.ReplaceAll(strings.ToLower(label), "_", "-")
}

// find sets the object of the node: the most specific one that exists, whatever its content.
func (s *subject) find() {
	own, legacy, byType := nodeObject(s.node.Name), legacyObject(s.node.Name), typeObject(s.node.Type)
	_, ownExists := s.ConfigMaps[own]
	_, typeExists := s.ConfigMaps[byType]
	legacyExists := s.isLegacy(legacy)
	switch {
	case ownExists:
		s.object = own
		if legacyExists {
			s.problem(place{object: own}, "node must have one object of its own", legacy)
		}
	case legacyExists:
		s.object = legacy
	case typeExists:
		s.object, s.general = byType, true
	default:
		s.object, s.general = BuiltIn, true
	}
}

// isLegacy reports whether an object with the old name is that of the node, even if its content is
// wrong, because a more general object would apply otherwise. If the name can also be that of
// another node's or a type's object, node_name decides.
func (s *subject) isLegacy(name string) bool {
	if _, exists := s.ConfigMaps[name]; !exists {
		return false
	}
	if !strings.HasPrefix(name, nodePrefix) && !strings.HasPrefix(name, typePrefix) {
		return true
	}
	for _, e := range s.text(name, settingsKey).entries {
		if e.Key == "node_name" {
			return e.Value == s.node.Name
		}
	}
	return true // otherwise its node would be unknown
}

// readObject reads everything in the object of the node.
func (s *subject) readObject() {
	data := s.ConfigMaps[s.object]
	for _, key := range slices.Sorted(maps.Keys(data)) {
		at := place{object: s.object, key: key}
		name, isMethod := strings.CutPrefix(key, methodPrefix)
		switch {
		case key == settingsKey:
		case isMethod && validKey("m"+name) && name != "":
			text := s.text(s.object, key)
			s.take(text.found)
			s.define(methodName(name), at, text.entries)
		default:
			s.problem(at, nearest("data key must be "+settingsKey+" or "+methodPrefix+"<name>", key,
				[]string{settingsKey, methodPrefix}), key)
		}
	}
	if _, exists := data[settingsKey]; !exists {
		s.problem(place{object: s.object}, "data key "+settingsKey+" is required", "")
		return
	}
	settings := s.text(s.object, settingsKey)
	s.take(settings.found)
	s.readSettings(place{object: s.object, key: settingsKey}, settings.entries)
}

// methodName returns the form in which names of methods are compared.
func methodName(name string) string {
	return strings.ReplaceAll(normal(name), "_", "-")
}
