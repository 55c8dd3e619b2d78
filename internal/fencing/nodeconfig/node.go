package nodeconfig

import (
	"fmt"
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

// instanceID returns the last part of the path of the provider ID.
func (n Node) instanceID() string {
	return n.ProviderID[strings.LastIndexByte(n.ProviderID, '/')+1:]
}

// Placeholders in the values of parameters.
const (
	nodeNamePlaceholder   = "{{.NodeName}}"
	providerIDPlaceholder = "{{.ProviderID}}"
	instanceIDPlaceholder = "{{.InstanceID}}"
	// seedPlaceholder, like nodeNamePlaceholder, is the value of node_name for any node.
	seedPlaceholder = "[NODE_NAME]"
)

// expand replaces placeholders once: inserted text is not searched for placeholders. Otherwise it
// returns the broken rule.
func (n Node) expand(value string) (expanded, rule string) {
	facts := map[string]string{
		nodeNamePlaceholder:   n.Name,
		providerIDPlaceholder: n.ProviderID,
		instanceIDPlaceholder: n.instanceID(),
	}
	var text strings.Builder
	for {
		before, rest, found := strings.Cut(value, "{{")
		text.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}}")
		placeholder := "{{" + name + "}}"
		fact, known := facts[placeholder]
		switch flaw := badText(fact); {
		case !closed || !known:
			return "", fmt.Sprintf(
				"placeholder must be %s, %s or %s",
				nodeNamePlaceholder,
				providerIDPlaceholder,
				instanceIDPlaceholder,
			)
		case fact == "":
			return "", fmt.Sprintf("node %s has nothing for %s", n.Name, placeholder)
		case flaw != "":
			return "", fmt.Sprintf("what node %q has for %s must be plain UTF-8 text: %s", n.Name, placeholder,
				flaw)
		}
		text.WriteString(fact)
		value = after
	}
	if text.Len() > maxLine {
		return "", fmt.Sprintf("value must have at most %d bytes for node %s", maxLine, n.Name)
	}
	return text.String(), ""
}
