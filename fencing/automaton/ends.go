package automaton

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// givenUp waits for a human, or for the node to return late.
func (t turn) givenUp() Step {
	n, look := t.node(lookEvery / 2)
	if look != nil {
		return look
	}
	if t.restartAsked() {
		return t.reopen(IncidentReopened, n, t.open)
	}
	off, unknown := off(t.s)
	powered := len(off) == 0 && len(unknown) == 0
	if powered && !stopped(t.s.Abort) && t.s.Abort != v1alpha1.AbortNodeGone && t.back(n) {
		return t.enter(NodeBack, v1alpha1.PhaseRecovering)
	}
	if powered && (t.gone(n) || t.cleared(n)) && t.forgotten() {
		return Delete{}
	}
	if !t.gone(n) && t.cleared(n) && !t.Memory.sinceChange.renewed {
		return Wait{For: lookEvery, Why: "the node is shown Ready, and has to renew its Lease"}
	}
	return Wait{For: lookSeldom, Why: "given up: a human is needed"}
}

// final waits to be forgotten, or for the node to fail again.
func (t turn) final() Step {
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
func (t turn) reopen(row Row, n Node, open func(*v1alpha1.Status, Node)) Step {
	return t.write(row, func(s *v1alpha1.Status) {
		archive(s, t.Now.Wall)
		*s = v1alpha1.Status{
			Incident: s.Incident, History: s.History, Problems: s.Problems,
			Taints: v1alpha1.Taints{Fence: s.Taints.Fence},
		}
		open(s, n)
	})
}

// restartAsked says that an admin wants this very incident to be followed by another.
func (t turn) restartAsked() bool {
	return t.Fence.Annotations[v1alpha1.AnnotationRestart] == strconv.FormatInt(t.s.Incident, 10) && !t.stopAsked()
}

// forgotten says that the record has been kept for long enough after its end.
func (t turn) forgotten() bool {
	complete := meta.FindStatusCondition(t.s.Conditions, v1alpha1.ConditionComplete)
	return complete != nil && t.Now.Wall.Sub(complete.LastTransitionTime.Time) >= time.Duration(or(t.Plan.History, DefaultHistory))
}
