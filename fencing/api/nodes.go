package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeCondition is a condition of a Node with a status.
type NodeCondition struct {
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
}

func (c NodeCondition) String() string { return fmt.Sprintf("%s=%s", c.Type, c.Status) }

// NodeSelector selects the nodes that may be fenced, and the conditions that start a fence. All fields
// have defaults.
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

// Defaults of [NodeSelector].
const (
	DefaultExcludeLabel                                 = "fencing.bellwether.dev/exclude"
	DefaultFenceReadyCondition corev1.NodeConditionType = "FenceReady"
)

// DefaultAutoscalerTaints returns the keys of Cluster Autoscaler and Karpenter.
func DefaultAutoscalerTaints() []string {
	return []string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"}
}

// WithDefaults returns c with defaults for empty fields.
func (c NodeSelector) WithDefaults() NodeSelector {
	if c.Selector == nil {
		c.Selector = labels.Everything()
	}
	if c.ExcludeLabel == "" {
		c.ExcludeLabel = DefaultExcludeLabel
	}
	if c.AutoscalerTaints == nil {
		c.AutoscalerTaints = DefaultAutoscalerTaints()
	}
	if c.FenceReadyCondition == "" {
		c.FenceReadyCondition = DefaultFenceReadyCondition
	}
	c.AutoscalerTaints, c.Triggers = slices.Clone(c.AutoscalerTaints), slices.Clone(c.Triggers)
	return c
}

// Validate returns all errors in c, which has its defaults: "fencing: Nodes.Field: rule (got value)".
func (c NodeSelector) Validate() error {
	var problems []error
	refuse := func(field, rule string, got any) {
		problems = append(problems, fmt.Errorf("fencing: Nodes.%s: %s (got %v)", field, rule, got))
	}
	name := func(field, value string) {
		if p := validation.IsQualifiedName(value); len(p) > 0 {
			refuse(field, strings.Join(p, "; "), fmt.Sprintf("%q", value))
		}
	}
	condition := func(field string, c NodeCondition) {
		name(field+".Type", string(c.Type))
		switch c.Status {
		case corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
		default:
			refuse(field+".Status", "must be True, False or Unknown", fmt.Sprintf("%q", c.Status))
		}
	}
	name("ExcludeLabel", c.ExcludeLabel)
	for i, key := range c.AutoscalerTaints {
		name(fmt.Sprintf("AutoscalerTaints[%d]", i), key)
	}
	for i, t := range c.Triggers {
		field := fmt.Sprintf("Triggers[%d]", i)
		condition(field, t)
		if t.Type == corev1.NodeReady {
			refuse(field, "must be another condition, as Ready is one anyway", t)
		}
		if slices.Contains(c.Triggers[:i], t) {
			refuse(field, "must be there once", t)
		}
	}
	if c.StorageLost != (NodeCondition{}) {
		condition("StorageLost", c.StorageLost)
		if slices.Contains(c.Triggers, c.StorageLost) {
			refuse("StorageLost", "must not be a trigger, as nothing would be fenced for it", c.StorageLost)
		}
	}
	name("FenceReadyCondition", string(c.FenceReadyCondition))
	return errors.Join(problems...)
}
