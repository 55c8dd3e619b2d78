package cluster

import (
	"context"
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// AnnotationCordoned is on a node that Cordon has cordoned, written by the same request; its value
// is the incident. So a controller that comes after a crash knows whose cordon it is.
const AnnotationCordoned = v1alpha1.Group + "/cordoned"

// Cordon sets spec.unschedulable, as `kubectl cordon` does, and says whether the cordon is ours. It
// is not if the node was cordoned already; then nothing is written, and Uncordon will leave it.
//
// A cordon cannot have two owners: an admin who cordons a node that we have cordoned changes
// nothing, and no one can tell afterwards that there was an admin, so Uncordon removes both.
// MarkUnschedulable has no such limit.
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

// Uncordon undoes Cordon, and only that.
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

// Annotate gives the node an annotation.
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

// Label gives the node a label.
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

// DropAnnotation removes an annotation from the node, if it has this value.
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
