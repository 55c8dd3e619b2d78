package statemachine

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// givenUp waits for a human, or for the node to return late.
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
	if powered && !stopped(t.s.Abort) && t.s.Abort != v1alpha1.AbortNodeGone && t.back(n) {
		return t.enter(NodeBack, v1alpha1.PhaseRecovering)
	}
	if t.back(n) && !stopped(t.s.Abort) && t.s.Abort != v1alpha1.AbortNodeGone {
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
	if powered && (t.gone(n) || t.cleared(n)) && t.forgotten() {
		return Delete{}
	}
	if !t.gone(n) && t.cleared(n) && !t.Memory.sinceChange.renewed {
		return Wait{For: lookEvery, Why: "the node is shown Ready, and has to renew its Lease"}
	}
	return Wait{For: lookSeldom, Why: "given up: a human is needed"}
}

// foundOn reads the plugs that were left, perhaps because they could not be read, of a node that
// works; nil: none of them is found to be on.
func (t transition) reportDevicesOn() Step {
	for _, rec := range t.s.Devices {
		if _, configured := t.Plan.device(rec.Device); rec.State != v1alpha1.DeviceLeftOff || !configured {
			continue
		}
		seen, ok := t.reading(rec.Device, lookSeldom)
		switch {
		case !ok:
			return Read{[]string{rec.Device}}
		case seen.power == v1alpha1.PowerOn:
			return t.onSeen(rec, seen)
		}
	}
	return nil
}

// another says that a node whose fence was given up is to be fenced, and that this is not the fence
// that was given up: it is another Node, or has worked since, or what ended the fence is so no
// more. Who has stopped it has stopped that, too, as long as the annotation is there.
func (t transition) another(n Node) bool {
	switch {
	case t.Trigger == nil, t.stopAsked(), n.Missing, n.Leaving, t.cleared(n):
		return false
	}
	return n.UID != t.s.NodeUID || t.s.Abort == v1alpha1.AbortNodeGone || t.hasCondition(v1alpha1.ConditionReturned) ||
		t.hasCondition(v1alpha1.ConditionDenied)
}

// said says that a condition of the record is true.
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

// final waits to be forgotten, or for the node to fail again.
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
			Incident: s.Incident, History: s.History, Problems: s.Problems,
			Taints: v1alpha1.Taints{Fence: s.Taints.Fence},
		}
		open(s, n)
	})
}

// restartAsked says that an admin wants this very incident to be followed by another.
func (t transition) restartAsked() bool {
	return t.Fence.Annotations[v1alpha1.AnnotationRestart] == strconv.FormatInt(t.s.Incident, 10) && !t.stopAsked()
}

// forgotten says that the record has been kept for long enough after its end.
func (t transition) forgotten() bool {
	complete := meta.FindStatusCondition(t.s.Conditions, v1alpha1.ConditionComplete)
	return complete != nil &&
		t.Now.Wall.Sub(complete.LastTransitionTime.Time) >= time.Duration(or(t.Plan.History, DefaultHistory))
}
