package fencing

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// maxNote is the maximum length of a note that the API server accepts.
const maxNote = 1024

// event records an Event about a NodeFence.
func (c *Config) event(f *v1alpha1.NodeFence, eventType, reason, action, format string, args ...any) {
	if c.Events == nil {
		return
	}
	about := &v1alpha1.NodeFence{}
	about.SetGroupVersionKind(v1alpha1.Kind())
	about.Name, about.UID, about.ResourceVersion = f.Name, f.UID, f.ResourceVersion
	node := &corev1.Node{}
	node.APIVersion, node.Kind = "v1", "Node"
	node.Name, node.UID = f.Node, f.Status.NodeUID
	c.Events.Eventf(about, node, eventType, reason, action, "%s", note(fmt.Sprintf(format, args...)))
}

// nodeEvent records an Event about a Node.
func (c *Config) nodeEvent(n *corev1.Node, eventType, reason, action, text string) {
	if c.Events == nil {
		return
	}
	about := &corev1.Node{}
	about.APIVersion, about.Kind = "v1", "Node"
	about.Name, about.UID, about.ResourceVersion = n.Name, n.UID, n.ResourceVersion
	c.Events.Eventf(about, nil, eventType, reason, action, "%s", note(text))
}

// note truncates text to the length of a note.
func note(text string) string {
	if len(text) > maxNote {
		return strings.ToValidUTF8(text[:maxNote], "") // drop a rune that was cut
	}
	return text
}
