package v1alpha1

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of NodeFence.
const Group = "fencing.bellwether.dev"

// CRD is the manifest of the CustomResourceDefinition of NodeFence, in YAML.
//
//go:embed fencing.bellwether.dev_nodefences.yaml
var CRD []byte

// GroupVersion returns the group and version of NodeFence.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// Resource returns the resource of NodeFences, for dynamic and metadata clients.
func Resource() schema.GroupVersionResource { return GroupVersion().WithResource("nodefences") }

// Kind returns the kind of NodeFence.
func Kind() schema.GroupVersionKind { return GroupVersion().WithKind("NodeFence") }

// Name returns the name of the NodeFence of a node: node-fence-<node>. A name longer than 253
// characters is cut to 240 and gets a dash and 10 hexadecimal digits of the SHA-256 of the node's
// name. The NodeFence is the lock of the node: the request that creates it starts the fence.
func Name(node string) string {
	const longest, kept = 253, 240
	name := "node-fence-" + node
	if len(name) <= longest {
		return name
	}
	sum := sha256.Sum256([]byte(node))
	// What is kept may end in a dot, and a name must not have a dot beside a dash.
	end := kept
	for name[end-1] == '.' || name[end-1] == '-' {
		end--
	}
	return name[:end] + "-" + hex.EncodeToString(sum[:])[:10]
}
