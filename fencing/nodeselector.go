package fencing

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
)

// NodeSelector selects the nodes that may be fenced, and the conditions that start a fence. All
// fields have defaults.
type NodeSelector struct {
	// Selector matches the labels of nodes that may be fenced. Default: all nodes.
	Selector labels.Selector

	// ExcludeLabel excludes the nodes that have this label with a value other than "false".
	// Default: fencing.bellwether.dev/exclude.
	ExcludeLabel string

	// AutoscalerTaints are the keys of taints that mark a node for removal. Such a node is not
	// fenced. Default: ToBeDeletedByClusterAutoscaler and karpenter.sh/disrupted.
	AutoscalerTaints []string

	// Triggers are the conditions that start a fence, besides Ready, which always starts one when
	// it is not True. Default: none.
	Triggers []NodeCondition

	// StorageLost is the condition by which a node reports that it cannot reach its storage. It
	// must not be one of Triggers. Default: none.
	StorageLost NodeCondition

	// FenceReadyCondition is the type of the condition that the controller sets on a Ready node
	// after it has checked the node's devices. A new leader assumes that a node with this condition
	// has been Ready before. Default: FenceReady.
	FenceReadyCondition corev1.NodeConditionType
}

// NodeCondition is a condition of a Node with a status.
type NodeCondition struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
}

// withDefaults converts s and sets its defaults.
func (s NodeSelector) withDefaults() nodestate.Config {
	c := nodestate.Config{
		Selector: s.Selector, ExcludeLabel: s.ExcludeLabel, AutoscalerTaints: s.AutoscalerTaints,
		StorageLost: nodestate.Condition(s.StorageLost), FenceReadyCondition: s.FenceReadyCondition,
	}
	for _, trigger := range s.Triggers {
		c.Triggers = append(c.Triggers, nodestate.Condition(trigger))
	}
	return c.WithDefaults()
}
