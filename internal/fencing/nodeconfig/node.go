package nodeconfig

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Node has the facts about a node that a configuration can use.
type Node struct {
	// Name of the node.
	Name string
	// ProviderID is spec.providerID, such as aws:///eu-central-1a/i-0abc. It may be missing.
	ProviderID string
	// Type is the value of the label type, empty without the label.
	Type string
	// Since orders nodes by when they got their provider IDs; smaller is earlier. A kubelet can
	// give its Node the provider ID of another node. If two nodes claim a plug by it, the earlier
	// one keeps it, or neither if they are equal. 0 is for nodes that had it before all others, as
	// proved by something that no kubelet can have written.
	Since int64
}

// Placeholders in the values of parameters.
const (
	nodeNamePlaceholder   = "{{.NodeName}}"
	providerIDPlaceholder = "{{.ProviderID}}"
	instanceIDPlaceholder = "{{.InstanceID}}" // the last part of the path of the provider ID
	// seedPlaceholder, like nodeNamePlaceholder, is the value of node_name for any node.
	seedPlaceholder = "[NODE_NAME]"
)

var placeholder = regexp.MustCompile(`(?s)\{\{.*?(\}\}|$)`)

// expand replaces placeholders once: inserted text is not searched for placeholders. If a value
// cannot be expanded, it returns the broken rule.
func (n Node) expand(value string) (expanded, rule string) {
	facts := map[string]string{
		nodeNamePlaceholder:   n.Name,
		providerIDPlaceholder: n.ProviderID,
		instanceIDPlaceholder: n.ProviderID[strings.LastIndexByte(n.ProviderID, '/')+1:],
	}
	expanded = placeholder.ReplaceAllStringFunc(value, func(written string) string {
		fact, known := facts[written]
		switch flaw := badText(fact); {
		case rule != "":
		case !known:
			rule = fmt.Sprintf("placeholder must be %s, %s or %s", nodeNamePlaceholder, providerIDPlaceholder,
				instanceIDPlaceholder)
		case fact == "":
			rule = fmt.Sprintf("node %s has nothing for %s", n.Name, written)
		case flaw != "":
			rule = fmt.Sprintf("what node %q has for %s must be plain UTF-8 text: %s", n.Name, written, flaw)
		}
		return fact
	})
	if rule == "" && len(expanded) > maxLine {
		rule = fmt.Sprintf("value must have at most %d bytes for node %s", maxLine, n.Name)
	}
	return expanded, rule
}

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

// typeObject returns the name of the object for the type of a node, or "" without a type.
func (n Node) typeObject() string {
	if n.Type == "" {
		return ""
	}
	return typePrefix + strings.ReplaceAll(strings.ToLower(n.Type), "_", "-")
}

// readObject reads everything in the object of the node.
func (s *subject) readObject() {
	for _, key := range slices.Sorted(maps.Keys(s.from.ConfigMaps[s.object])) {
		at := place{object: s.object, key: key}
		name, isMethod := strings.CutPrefix(key, methodPrefix)
		switch {
		case key == settingsKey:
		case isMethod && validKey.MatchString("m"+name) && name != "":
			s.readMethod(methodName(name), at, s.text(s.object, key))
		default:
			s.problem(at, nearest("data key must be "+settingsKey+" or "+methodPrefix+"<name>", key,
				[]string{settingsKey, methodPrefix}), key)
		}
	}
	if entries, exists := s.required(s.object, settingsKey); exists {
		s.readSettings(entries)
	}
}
