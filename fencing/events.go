package fencing

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// EventRecorder is implemented by the recorders of k8s.io/client-go/tools/events, which controller-runtime's managers give out, too. One of
// k8s.io/client-go/tools/record becomes one by its NewEventRecorderAdapter. It must not block: fences wait for it.
//
// The Events are about the NodeFence, and related to the Node, but for those about the node's condition FenceReady, which are about the Node.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// maxNote is how long a note the API server takes.
const maxNote = 1024

// event tells people who look at a NodeFence.
func (c *Controller) event(f *v1alpha1.NodeFence, eventType, reason, action, format string, args ...any) {
	if c.config.Events == nil {
		return
	}
	about := &v1alpha1.NodeFence{}
	about.SetGroupVersionKind(v1alpha1.Kind())
	about.Name, about.UID, about.ResourceVersion = f.Name, f.UID, f.ResourceVersion
	node := &corev1.Node{}
	node.APIVersion, node.Kind = "v1", "Node"
	node.Name, node.UID = f.Node, f.Status.NodeUID
	c.config.Events.Eventf(about, node, eventType, reason, action, "%s", note(fmt.Sprintf(format, args...)))
}

// nodeEvent tells people who look at a Node.
func (c *Controller) nodeEvent(n *corev1.Node, eventType, reason, action, text string) {
	if c.config.Events == nil {
		return
	}
	about := &corev1.Node{}
	about.APIVersion, about.Kind = "v1", "Node"
	about.Name, about.UID, about.ResourceVersion = n.Name, n.UID, n.ResourceVersion
	c.config.Events.Eventf(about, nil, eventType, reason, action, "%s", note(text))
}

// note is a text as long as an Event may have it.
func note(text string) string {
	if len(text) > maxNote {
		return strings.ToValidUTF8(text[:maxNote], "") // where a rune was cut
	}
	return text
}
