package fencing

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// maxNote is the maximum length of a note that the API server accepts.
const maxNote = 1024

// event records an Event about a NodeFence.
func (c *Config) event(f *v1alpha1.NodeFence, eventType, reason, action, format string, args ...any) {
	about, node := &v1alpha1.NodeFence{}, &corev1.Node{}
	about.SetGroupVersionKind(v1alpha1.Kind())
	about.Name, about.UID, about.ResourceVersion = f.Name, f.UID, f.ResourceVersion
	node.APIVersion, node.Kind, node.Name, node.UID = "v1", "Node", f.Node, f.Status.NodeUID
	c.tell(about, node, eventType, reason, action, fmt.Sprintf(format, args...))
}

// nodeEvent records an Event about a Node.
func (c *Config) nodeEvent(n *corev1.Node, eventType, reason, action, text string) {
	about := &corev1.Node{}
	about.APIVersion, about.Kind = "v1", "Node"
	about.Name, about.UID, about.ResourceVersion = n.Name, n.UID, n.ResourceVersion
	c.tell(about, nil, eventType, reason, action, text)
}

// namespaceEvent records an Event about the namespace of the configuration.
func (c *Config) namespaceEvent(eventType, reason, text string) {
	about := &corev1.Namespace{}
	about.APIVersion, about.Kind = "v1", "Namespace"
	// An Event is in the namespace of its object, if that has one.
	about.Name, about.Namespace = c.Namespace, c.Namespace
	c.tell(about, nil, eventType, reason, "Configure", text)
}

// tell records an Event, with a text that is cut to the length of a note.
func (c *Config) tell(about, related runtime.Object, eventType, reason, action, text string) {
	if c.Events == nil {
		return
	}
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") // drop a rune that was cut
	}
	c.Events.Eventf(about, related, eventType, reason, action, "%s", text)
}

// repeatEventsAfter is the interval at which Events about a persisting problem are repeated. By
// default the API server drops Events after an hour.
const repeatEventsAfter = 30 * time.Minute

// reportBlocked records an Event with the reason why the fence is blocked or was given up. It
// repeats the Event every repeatEventsAfter.
func (f *fence) reportBlocked() {
	s, now := &f.record.Status, f.clock.Now()
	reason, text := "", ""
	switch {
	case s.Hold != nil:
		reason, text = s.Hold.Reason, s.Hold.Message
	case s.Phase == v1alpha1.PhaseGivenUp:
		if text = f.gaveUp(s); text != "" {
			reason = string(v1alpha1.PhaseGivenUp)
		}
	}
	if reason == "" || reason == f.alarmed && now.SinceAtMost(f.alarmedAt) < repeatEventsAfter {
		f.alarmed = reason
		return
	}
	f.alarmed, f.alarmedAt = reason, now
	f.config.event(f.record, corev1.EventTypeWarning, reason, "Wait",
		"incident %d of node %s: %s", s.Incident, f.node, text)
}

// gaveUp returns the message about a fence that was given up, or "" if no message is needed: an
// admin has stopped the fence, excluded the node, configured that its power stays off, or removed
// the Node after the release.
func (f *fence) gaveUp(s *v1alpha1.Status) string {
	off := ""
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPoweredOff); c != nil &&
		c.Status != metav1.ConditionFalse {
		off = "; plugs " + c.Message
	}
	facts, there := f.state.factsOf(f.node, time.Now())
	lost := there && facts.UID == string(s.NodeUID) && facts.Ready != policy.True
	released := s.Released == v1alpha1.ReleasedDone
	denied := meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionDenied)
	switch s.Abort {
	case v1alpha1.AbortStopHold, v1alpha1.AbortStopRestore:
		return ""
	case v1alpha1.AbortNone:
		if f.plan.PowerOn == nodeplan.Never || f.plan.PowerOn == nodeplan.Manual || released && !there {
			return ""
		}
	case v1alpha1.AbortNodeGone:
		if lost {
			return "the node is not fenced, as it is about to be removed, and it is still there: its workloads are " +
				"not free" + off
		}
		if off != "" {
			return "the node is gone, and nothing switches its machine on again" + off
		}
		return ""
	}
	switch {
	case denied && facts.Excluded:
		return ""
	case denied && lost:
		return "the node is not fenced: " + meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDenied).Message
	case denied && off == "":
		return ""
	case released:
		return "a human is needed: the machine may be off; its workloads are free; see the status" + off
	}
	return "a human is needed: the machine may be off, and its workloads may not be free; see the status" + off
}
