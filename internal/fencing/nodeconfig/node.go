package nodeconfig

import (
	"fmt"
	"strings"
)

// Node is what a configuration can ask of a node.
type Node struct {
	// Name of the node.
	Name string
	// ProviderID is spec.providerID, such as aws:///eu-central-1a/i-0abc. It may be missing.
	ProviderID string
	// Type is the value of the label type. Empty: there is none.
	Type string
	// Since orders when nodes came to their provider IDs, the smaller the earlier. A kubelet can
	// give its Node the provider ID of another: of two nodes that claim a plug by it, the one that
	// had it earlier keeps it. If neither had, neither does. 0 is for those that are known to have
	// had it before all others, by what no kubelet can have written.
	Since int64
}

// instanceID is the last part of the path of the provider ID.
func (n Node) instanceID() string {
	return n.ProviderID[strings.LastIndexByte(n.ProviderID, '/')+1:]
}

// Placeholders in the values of parameters.
const (
	nodeNamePlaceholder   = "{{.NodeName}}"
	providerIDPlaceholder = "{{.ProviderID}}"
	instanceIDPlaceholder = "{{.InstanceID}}"
	// seedPlaceholder is what stands for any node in node_name, besides nodeNamePlaceholder.
	seedPlaceholder = "[NODE_NAME]"
)

// expand replaces placeholders, each once: what is put in is never looked at for placeholders. It
// returns the kind and text of a rule that is broken instead.
func (n Node) expand(value string) (expanded string, broken Kind, rule string) {
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
			return "", UnknownPlaceholder, fmt.Sprintf(
				"placeholder must be %s, %s or %s",
				nodeNamePlaceholder,
				providerIDPlaceholder,
				instanceIDPlaceholder,
			)
		case fact == "":
			return "", NoNodeFact, fmt.Sprintf("node %s has nothing for %s", n.Name, placeholder)
		case flaw != "":
			return "", BadText, fmt.Sprintf("what node %q has for %s must be plain UTF-8 text: %s", n.Name, placeholder,
				flaw)
		}
		text.WriteString(fact)
		value = after
	}
	if text.Len() > maxLine {
		return "", LineTooLong, fmt.Sprintf("value must have at most %d bytes for node %s", maxLine, n.Name)
	}
	return text.String(), "", ""
}
