package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// outOfServicePrefix is the prefix of the values of our out-of-service taints. The incident
// follows.
const outOfServicePrefix = "bellwether-"

// MarkUnschedulable puts our own taint on the node, which keeps new pods away. Unlike a cordon it
// has one owner: it neither hides nor undoes an admin's cordon.
func (n *Node) MarkUnschedulable(ctx context.Context, prove Proof) error {
	if prove == nil {
		return errNoProof
	}
	taint := corev1.Taint{
		Key:    v1alpha1.TaintFenced,
		Value:  strconv.FormatInt(n.config.Incident, 10),
		Effect: corev1.TaintEffectNoSchedule,
	}
	_, err := n.edit(ctx, prove, func(node *corev1.Node) []operation {
		i := indexTaint(node, taint.Key, taint.Effect)
		switch {
		case i < 0:
			return addTaint(node, taint)
		case node.Spec.Taints[i].Value != taint.Value: // from an earlier incident
			return []operation{{"replace", taintPath(i) + "/value", taint.Value}}
		}
		return nil
	})
	return n.wrap("mark it unschedulable", err)
}

// MarkSchedulable removes the taint of MarkUnschedulable, of any incident, and no other.
func (n *Node) MarkSchedulable(ctx context.Context) error {
	_, err := n.edit(ctx, nil, func(node *corev1.Node) []operation {
		return removeTaint(indexTaint(node, v1alpha1.TaintFenced, corev1.TaintEffectNoSchedule))
	})
	if errors.Is(err, ErrNodeGone) {
		return nil
	}
	return n.wrap("mark it schedulable", err)
}

// TaintOutOfService puts the taint node.kubernetes.io/out-of-service with effect NoExecute on the
// node. It means that the machine is off: Kubernetes deletes the pods and detaches the volumes
// without asking the machine, even while the node is Ready. Set it after [Node.DeletePods] is done,
// and remove it before the machine is switched on.
//
// It returns the owner of the taint. A foreign taint with the same key and effect stays as it is.
func (n *Node) TaintOutOfService(ctx context.Context, prove Proof) (v1alpha1.TaintOwner, error) {
	if prove == nil {
		return v1alpha1.TaintNone, errNoProof
	}
	taint := corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: fmt.Sprint(outOfServicePrefix, n.config.Incident),
		Effect: corev1.TaintEffectNoExecute,
	}
	owner := v1alpha1.TaintNone
	_, err := n.edit(ctx, prove, func(node *corev1.Node) []operation {
		if owner = OutOfService(node); owner != v1alpha1.TaintNone {
			return nil
		}
		return addTaint(node, taint)
	})
	if err != nil {
		return v1alpha1.TaintNone, n.wrap("taint it out of service", err)
	}
	if owner == v1alpha1.TaintNone {
		owner = v1alpha1.TaintOurs
	}
	return owner, nil
}

// UntaintOutOfService removes our out-of-service taint, of any incident, and reads the node again
// to verify that. It returns the remaining owner: None or Foreign. Controllers that watch nodes may
// notice that only a moment later.
func (n *Node) UntaintOutOfService(ctx context.Context) (v1alpha1.TaintOwner, error) {
	_, err := n.edit(ctx, nil, func(node *corev1.Node) []operation {
		if OutOfService(node) != v1alpha1.TaintOurs {
			return nil
		}
		return removeTaint(indexTaint(node, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute))
	})
	var node *corev1.Node
	if err == nil {
		node, err = n.get(ctx)
	}
	switch {
	case errors.Is(err, ErrNodeGone):
		return v1alpha1.TaintNone, nil
	case err != nil:
		return v1alpha1.TaintNone, n.wrap("remove its out-of-service taint", err)
	}
	owner := OutOfService(node)
	if owner == v1alpha1.TaintOurs {
		return owner, n.wrap("remove its out-of-service taint", errors.New("it is there again"))
	}
	return owner, nil
}

// OutOfService returns the owner of a node's out-of-service taint.
func OutOfService(node *corev1.Node) v1alpha1.TaintOwner {
	i := indexTaint(node, corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)
	if i < 0 {
		return v1alpha1.TaintNone
	}
	number, ours := strings.CutPrefix(node.Spec.Taints[i].Value, outOfServicePrefix)
	if _, err := strconv.ParseUint(number, 10, 63); !ours || err != nil {
		return v1alpha1.TaintForeign
	}
	return v1alpha1.TaintOurs
}

func indexTaint(node *corev1.Node, key string, effect corev1.TaintEffect) int {
	return slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func addTaint(node *corev1.Node, taint corev1.Taint) []operation {
	if len(node.Spec.Taints) == 0 {
		return []operation{{"add", "/spec/taints", []corev1.Taint{taint}}}
	}
	return []operation{{"add", "/spec/taints/-", taint}}
}

// removeTaint removes the taint with this index. A negative index removes nothing.
func removeTaint(i int) []operation {
	if i < 0 {
		return nil
	}
	return []operation{{Op: "remove", Path: taintPath(i)}}
}

func taintPath(i int) string { return "/spec/taints/" + strconv.Itoa(i) }
