package fencing

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/config"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// alarmEvery is how often people are told again that a fence waits for them: the API server forgets Events after an hour, unless told otherwise.
const alarmEvery = 30 * time.Minute

// alarm tells people why the fence waits for them, and again as long as it does. Who has stopped it, or has configured that power stays off, knows.
func (f *fence) alarm() {
	s, now := &f.record.Status, f.clock.Now()
	reason, text := "", ""
	switch {
	case s.Hold != nil:
		reason, text = s.Hold.Reason, s.Hold.Message
	case s.Phase == v1alpha1.PhaseGivenUp && (s.Abort == v1alpha1.AbortGaveUp || s.Abort == v1alpha1.AbortCommission || s.Abort == v1alpha1.AbortNone && f.plan.PowerOn == config.Always):
		reason, text = string(v1alpha1.PhaseGivenUp), "a human is needed: the machine may be off, and its workloads may not be free; see the status"
	}
	if reason == "" || reason == f.alarmed && now.SinceAtMost(f.alarmedAt) < alarmEvery {
		f.alarmed = reason
		return
	}
	f.alarmed, f.alarmedAt = reason, now
	f.event(f.record, corev1.EventTypeWarning, reason, "Wait", "incident %d of node %s: %s", s.Incident, f.node, text)
}
