package view

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// Fence is the record of a node's fence.
type Fence struct {
	Node     string `json:"node"`
	Phase    string `json:"phase"`
	Incident int64  `json:"incident"`
	// Released means that the machine was proved to be off and its workloads are free.
	Released bool `json:"released"`
	// Hold is why the fence is blocked or was given up.
	Hold    string `json:"hold,omitempty"`
	Message string `json:"message,omitempty"`
	// Paused and Stop are an admin's annotations.
	Paused  bool      `json:"paused,omitempty"`
	Stop    string    `json:"stop,omitempty"`
	Created time.Time `json:"created,omitzero"`
	// Since is the time of the trigger of this incident.
	Since time.Time `json:"since,omitzero"`
	// Ended means that the fence continues only if a person or the node itself acts.
	Ended bool `json:"ended"`
}

// FenceOf returns the state that a NodeFence records.
func FenceOf(f *v1alpha1.NodeFence) Fence {
	v := Fence{
		Node: f.Node, Phase: string(f.Status.Phase), Incident: f.Status.Incident,
		Released: meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionReleased),
		Paused:   f.Annotations[v1alpha1.AnnotationPaused] == "true", Stop: f.Annotations[v1alpha1.AnnotationStop],
		Created: f.CreationTimestamp.Time, Ended: f.Status.Phase.Ended(),
	}
	if v.Phase == "" {
		v.Phase = "New" // no fencer has seen it
	}
	if len(f.Status.Triggers) > 0 {
		v.Since = f.Status.Triggers[0].Since.Time
	}
	switch h := f.Status.Hold; {
	case h != nil:
		v.Hold, v.Message = h.Reason, h.Message
	case f.Status.Abort != "":
		v.Hold = string(f.Status.Abort)
	}
	return v
}

// Wait returns what a fence waits for, or "" if a person need not know it.
func (f Fence) Wait() string {
	switch {
	case f.Phase == "New":
		return "a fencer, which has not seen it yet"
	case f.Phase == string(v1alpha1.PhaseGivenUp):
		return "a human: " + f.reason()
	case f.Stop != "":
		return "nothing: it was stopped (" + f.Stop + ")"
	case f.Paused:
		return "an admin, who has paused it"
	case f.Hold != "" && !f.Ended:
		return f.reason()
	}
	return ""
}

func (f Fence) reason() string {
	if f.Message != "" {
		return f.Hold + ": " + f.Message
	}
	return f.Hold
}
