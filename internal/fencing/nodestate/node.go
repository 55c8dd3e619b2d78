package nodestate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// node has what was seen of one Node, which has one UID.
type node struct {
	uid     types.UID
	version string
	bootID  string
	facts   policy.NodeFacts // without durations
	failing map[api.NodeCondition]spell
}

// notReady is the trigger that always applies: Ready is not True.
var notReady = api.NodeCondition{Type: corev1.NodeReady}

// spell is a period in which a condition has held without interruption.
type spell struct {
	since  time.Time   // by our clock
	status string      // of Ready: False, Unknown or empty
	change metav1.Time // of another clock: only compared for equality
}

// see takes in a version that has arrived now.
func (n *node) see(v *corev1.Node, c *api.NodeSelector, joining bool, now time.Time) {
	if older(v.ResourceVersion, n.version) {
		return
	}
	conditions := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, condition := range v.Status.Conditions {
		conditions[condition.Type] = condition
	}
	ready := conditions[corev1.NodeReady]
	_, marked := conditions[c.FenceReadyCondition]
	_, controlPlane := v.Labels["node-role.kubernetes.io/control-plane"]
	excluded, labelled := v.Labels[c.ExcludeLabel]

	ever := n.facts.EverReady
	switch {
	case ready.Status == corev1.ConditionTrue || marked:
		ever = policy.True
	case ever != policy.Missing:
	case joining:
		ever = policy.False
	default:
		ever = policy.Unknown
	}
	n.facts = policy.NodeFacts{
		Name: v.Name, UID: string(v.UID), Zone: v.Labels[corev1.LabelTopologyZone], ControlPlane: controlPlane,
		Selected: c.Selector.Matches(labels.Set(v.Labels)), Excluded: labelled && excluded != "false",
		Deleting: !v.DeletionTimestamp.IsZero(),
		AutoscalerTaint: slices.ContainsFunc(
			v.Spec.Taints,
			func(t corev1.Taint) bool { return slices.Contains(c.AutoscalerTaints, t.Key) },
		),
		Machine:   machine(&v.Status),
		EverReady: ever, Ready: policy.Status(ready.Status),
		FenceReady:  policy.Status(conditions[c.FenceReadyCondition].Status),
		StorageLost: c.StorageLost.Type != "" && conditions[c.StorageLost.Type].Status == c.StorageLost.Status,
	}

	boot := cmp.Or(v.Status.NodeInfo.BootID, n.bootID)
	rebooted := n.bootID != "" && boot != n.bootID
	failing := map[api.NodeCondition]spell{}
	note := func(trigger api.NodeCondition, condition corev1.NodeCondition) {
		s := spell{now, string(condition.Status), condition.LastTransitionTime}
		// Another transition time means that the status was different in between, which was not
		// seen.
		if before, ok := n.failing[trigger]; ok && !rebooted &&
			(before.status != s.status || before.change.Equal(&s.change)) {
			s.since = before.since
		}
		failing[trigger] = s
	}
	if ready.Status != corev1.ConditionTrue {
		note(notReady, ready)
	}
	for _, trigger := range c.Triggers {
		if condition := conditions[trigger.Type]; condition.Status == trigger.Status {
			note(trigger, condition)
		}
	}
	n.version, n.bootID, n.failing = v.ResourceVersion, boot, failing
}

func machine(s *corev1.NodeStatus) policy.Machine {
	m := policy.Machine{SystemUUID: s.NodeInfo.SystemUUID, ID: s.NodeInfo.MachineID}
	for _, a := range s.Addresses {
		if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
			m.Addresses = append(m.Addresses, a.Address)
		}
	}
	return m
}

// at returns the facts, with durations until now.
func (n *node) at(now time.Time, l *lease) policy.NodeFacts {
	facts := n.facts
	for trigger, s := range n.failing {
		d := max(now.Sub(s.since), 1) // 0 would mean that it does not fail
		if trigger == notReady {
			facts.NotReadyFor = d
		}
		facts.FailingFor = max(facts.FailingFor, d)
	}
	facts.LeaseSilentFor = n.own(l).silentFor(now)
	return facts
}

// own returns the lease if it belongs to this Node, not to an earlier one of its name.
func (n *node) own(l *lease) *lease {
	if l == nil || l.owner != "" && l.owner != n.uid {
		return nil
	}
	return l
}
