package statemachine

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// givenUp waits for an admin, or for a late return of the node.
func (t transition) givenUp() Step {
	n, look := t.node(lookEvery / 2)
	if look != nil {
		return look
	}
	if t.restartAsked() && !n.Missing || t.another(n) {
		return t.reopen(IncidentReopened, n, t.open)
	}
	off, unknown := off(t.s)
	powered := len(off) == 0 && len(unknown) == 0
	if powered && !stopped(t.s.Abort) && t.back(n) {
		return t.enter(NodeBack, v1alpha1.PhaseRecovering)
	}
	if t.back(n) && !stopped(t.s.Abort) {
		if step := t.reportDevicesOn(); step != nil {
			return step
		}
	}
	if t.back(n) && !t.hasCondition(v1alpha1.ConditionReturned) {
		return t.write(
			Worked,
			t.set(
				v1alpha1.ConditionReturned,
				string(Worked),
				"the node has worked since this fence was given up: if it is lost, that is another incident",
			),
		)
	}
	removed := n.Missing && t.s.Released == v1alpha1.ReleasedDone // as after delete-node
	if (removed || powered && (t.gone(n) || t.cleared(n))) && t.forgotten() {
		return Delete{}
	}
	if !t.gone(n) && t.cleared(n) && !t.Memory.sinceChange.renewed {
		return Wait{For: lookEvery, Why: "the node is shown Ready, and has to renew its Lease"}
	}
	return Wait{For: lookSeldom, Why: "given up: a human is needed"}
}

// reportDevicesOn reads the plugs of a working node that were left, perhaps because they could not
// be read. It returns nil if all of them are off.
func (t transition) reportDevicesOn() Step {
	for _, rec := range t.s.Devices {
		if _, configured := t.device(rec.Device); rec.State != v1alpha1.DeviceLeftOff || !configured {
			continue
		}
		seen, ok := t.reading(rec.Device, lookSeldom)
		switch {
		case !ok:
			return Read{[]string{rec.Device}}
		case seen.power == agent.PowerOn:
			return t.onSeen(rec, seen)
		}
	}
	return nil
}

// another reports whether a node whose fence was given up needs another fence: it is another Node,
// or has worked since, or the reason for the end no longer holds. An admin's stop holds as long as
// the annotation is there.
func (t transition) another(n Node) bool {
	switch {
	case t.Trigger == nil, t.stopAsked(), n.Missing, n.Leaving, t.cleared(n):
		return false
	}
	return n.UID != t.s.NodeUID || t.s.Abort == v1alpha1.AbortNodeGone || t.hasCondition(v1alpha1.ConditionReturned) ||
		t.hasCondition(v1alpha1.ConditionDenied)
}

// hasCondition reports whether a condition of the record is true.
func (t transition) hasCondition(condition string) bool {
	return meta.IsStatusConditionTrue(t.s.Conditions, condition)
}

// set returns a change that makes a condition of the record true.
func (t transition) set(condition, reason, message string) func(*v1alpha1.Status) {
	return func(s *v1alpha1.Status) {
		s.Conditions = slices.Clone(s.Conditions)
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(t.Now.Wall.Truncate(time.Second)),
		})
	}
}

// final waits until the record may be deleted, or the node fails again.
func (t transition) final() Step {
	if t.restartAsked() || t.Trigger != nil && !t.stopAsked() {
		n, look := t.node(lookEvery / 2)
		if look != nil {
			return look
		}
		if !n.Missing && !n.Leaving && !t.cleared(n) {
			return t.reopen(IncidentReopened, n, t.open)
		}
	}
	if step := t.asked(); step != nil {
		return step
	}
	if t.forgotten() {
		return Delete{}
	}
	return Wait{For: lookSeldom, Why: "the fence is complete"}
}

// reopen begins the next incident.
func (t transition) reopen(reason Reason, n Node, open func(*v1alpha1.Status, Node)) Step {
	return t.write(reason, func(s *v1alpha1.Status) {
		archive(s, t.Now.Wall)
		*s = v1alpha1.Status{
			Incident: s.Incident, History: s.History,
			Progress: v1alpha1.Progress{
				Problems: s.Problems, Taints: v1alpha1.Taints{Fence: s.Taints.Fence},
			},
		}
		open(s, n)
	})
}

// restartAsked reports whether an admin has requested another incident after this one.
func (t transition) restartAsked() bool {
	return t.Fence.Annotations[v1alpha1.AnnotationRestart] == strconv.FormatInt(t.s.Incident, 10) && !t.stopAsked()
}

// forgotten reports whether the record was kept long enough after its end.
func (t transition) forgotten() bool {
	complete := meta.FindStatusCondition(t.s.Conditions, v1alpha1.ConditionComplete)
	return complete != nil &&
		t.Now.Wall.Sub(complete.LastTransitionTime.Time) >= t.Plan.History
}
