package cluster

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// AnnotationCordoned is set on a node by the request that cordons it. Its value is the incident.
// After a crash, it shows the next controller whose cordon it is.
const AnnotationCordoned = v1alpha1.Group + "/cordoned"

// Cordon sets spec.unschedulable, as `kubectl cordon` does, and reports whether the cordon is ours.
// If the node was already cordoned, it is not; then nothing is written, and Uncordon will leave it.
//
// A cordon cannot have two owners. If an admin also cordons the node, nothing changes, and Uncordon
// removes both. MarkUnschedulable does not have this limit.
func (n *Node) Cordon(ctx context.Context, prove Proof) (ours bool, err error) {
	if prove == nil {
		return false, errNoProof
	}
	incident := strconv.FormatInt(n.config.Incident, 10)
	node, err := n.edit(ctx, prove, func(node *corev1.Node) []operation {
		if node.Spec.Unschedulable {
			return nil
		}
		return append(annotate(node, AnnotationCordoned, incident), operation{"add", "/spec/unschedulable", true})
	})
	if err != nil {
		return false, n.wrap("cordon it", err)
	}
	_, marked := node.Annotations[AnnotationCordoned]
	return marked || !node.Spec.Unschedulable, nil
}

// Uncordon undoes Cordon, and nothing else.
func (n *Node) Uncordon(ctx context.Context) error {
	_, err := n.edit(ctx, nil, func(node *corev1.Node) []operation {
		if _, ours := node.Annotations[AnnotationCordoned]; !ours {
			return nil
		}
		operations := []operation{{Op: "remove", Path: "/metadata/annotations/" + escape(AnnotationCordoned)}}
		if node.Spec.Unschedulable {
			operations = append(operations, operation{Op: "remove", Path: "/spec/unschedulable"})
		}
		return operations
	})
	if errors.Is(err, ErrNodeGone) {
		return nil
	}
	return n.wrap("uncordon it", err)
}

// Annotate sets an annotation of the node.
func (n *Node) Annotate(ctx context.Context, prove Proof, key, value string) error {
	if prove == nil {
		return errNoProof
	}
	_, err := n.edit(ctx, prove, func(node *corev1.Node) []operation {
		if old, has := node.Annotations[key]; has && old == value {
			return nil
		}
		return annotate(node, key, value)
	})
	return n.wrap("annotate it with "+key, err)
}

// Label sets a label of the node.
func (n *Node) Label(ctx context.Context, prove Proof, key, value string) error {
	if prove == nil {
		return errNoProof
	}
	_, err := n.edit(ctx, prove, func(node *corev1.Node) []operation {
		old, has := node.Labels[key]
		switch {
		case has && old == value:
			return nil
		case len(node.Labels) == 0:
			return []operation{{"add", "/metadata/labels", map[string]string{key: value}}}
		}
		return []operation{{"add", "/metadata/labels/" + escape(key), value}}
	})
	return n.wrap("label it with "+key, err)
}

// DropAnnotation removes an annotation of the node if it has this value.
func (n *Node) DropAnnotation(ctx context.Context, key, value string) error {
	_, err := n.edit(ctx, nil, func(node *corev1.Node) []operation {
		if old, has := node.Annotations[key]; !has || old != value {
			return nil
		}
		return []operation{{Op: "remove", Path: "/metadata/annotations/" + escape(key)}}
	})
	if errors.Is(err, ErrNodeGone) {
		return nil
	}
	return n.wrap("remove its annotation "+key, err)
}

func annotate(node *corev1.Node, key, value string) []operation {
	if len(node.Annotations) == 0 {
		return []operation{{"add", "/metadata/annotations", map[string]string{key: value}}}
	}
	return []operation{{"add", "/metadata/annotations/" + escape(key), value}}
}
