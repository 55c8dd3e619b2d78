package statemachine

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// admin returns the step that an admin's request requires, most important first, or nil if the flow
// continues.
func (t transition) admin() Step {
	if step := t.guard(); step != nil {
		return step
	}
	if t.s.Phase == "" {
		return nil
	}
	if _, asked := t.Fence.Annotations[v1alpha1.AnnotationCommission]; asked && t.s.Phase != v1alpha1.PhaseFinal {
		return t.dropAsked()
	}
	if why := t.stop(); why != "" && !t.s.Phase.Ended() &&
		(!stopped(t.s.Abort) || why == v1alpha1.AbortStopHold && t.s.Abort != why) {
		return t.abort(Stopped, why)
	}
	if step := t.confirm(); step != nil {
		return step
	}
	if t.s.Phase.Ended() {
		return nil
	}
	paused, said := t.Fence.Annotations[v1alpha1.AnnotationPaused] == "true", meta.IsStatusConditionTrue(t.s.Conditions,
		v1alpha1.ConditionPaused)
	switch {
	case paused && !said:
		return t.write(Paused, t.say(metav1.ConditionTrue, "Annotation"))
	case said && !paused:
		return t.write(Resumed, t.say(metav1.ConditionFalse, "NoAnnotation"))
	case paused:
		return t.paused()
	}
	return t.merge()
}

// guard sets the finalizer, which prevents the deletion of the record until the fence has ended,
// and then removes it.
func (t transition) guard() Step {
	has := slices.Contains(t.Fence.Finalizers, v1alpha1.Finalizer)
	deleting := t.Fence.DeletionTimestamp != nil
	switch {
	case has && (t.s.Phase.Ended() || deleting && t.s.Phase == ""):
		return SetFinalizer{Present: false}
	case !has && !t.s.Phase.Ended() && !deleting:
		return SetFinalizer{Present: true}
	case !has && deleting: // another client has removed it: nothing left to follow up
		return Wait{Why: "the record is being deleted"}
	}
	return nil
}

// stopAsked reports whether an annotation ends the fence.
func (t transition) stopAsked() bool {
	value := t.Fence.Annotations[v1alpha1.AnnotationStop]
	return value != "" && !strings.EqualFold(value, "false")
}

// stop returns how the fence must end, or "" if it continues. An unknown value means "hold", which does
// least.
func (t transition) stop() v1alpha1.Abort {
	switch {
	case t.stopAsked() && strings.EqualFold(t.Fence.Annotations[v1alpha1.AnnotationStop], "restore"):
		return v1alpha1.AbortStopRestore
	case t.stopAsked():
		return v1alpha1.AbortStopHold
	case t.Fence.DeletionTimestamp != nil:
		return v1alpha1.AbortStopRestore
	}
	return ""
}

// confirm accepts an admin's confirmation that the machine has no power.
func (t transition) confirm() Step {
	if t.Fence.Annotations[v1alpha1.AnnotationConfirmOff] != strconv.FormatInt(t.s.Incident, 10) || t.confirmed() {
		return nil
	}
	refuse := func(why string) Step { return DropAnnotation{v1alpha1.AnnotationConfirmOff, why} }
	switch t.s.Phase {
	case v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring, v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering,
		v1alpha1.PhaseFinal, v1alpha1.PhaseCommissioning:
		// An old confirmation could count after the machine was switched on.
		return refuse("in the phase " + string(t.s.Phase) + " the machine's power is not asked for")
	}
	switch {
	case stopped(t.s.Abort), t.s.Abort == v1alpha1.AbortNodeGone:
		return refuse("this fence has ended")
	case t.s.Released != v1alpha1.ReleasedNo:
		return refuse("the release has already begun")
	}
	_, devices := t.level()
	p := t.pass(devices)
	switch {
	// an admin may just have pulled the plug
	case len(devices) > 0 && (p.missing || p.age > recent), p.on && p.age > callWithin:
		return p.read
	case p.on:
		return refuse("a device reads on")
	}
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return refuse("the node is gone")
	case n.Ready:
		return refuse("the node is Ready")
	}
	by, at := t.confirmer()
	return t.enter(Confirmed, v1alpha1.PhaseReleasing, func(s *v1alpha1.Status) {
		s.Verified, s.Abort = true, v1alpha1.AbortNone
		prove(s, v1alpha1.Evidence{
			Device: t.Fence.Node, Source: v1alpha1.SourceManual, By: by,
			Readings: []v1alpha1.Reading{{Power: agent.PowerOff, At: metav1.NewMicroTime(at)}},
		})
	})
}

// confirmer returns who set the annotation, and when, from the managed fields.
func (t transition) confirmer() (by string, at time.Time) {
	at = t.Now.Wall
	for _, f := range t.Fence.ManagedFields {
		if f.FieldsV1 != nil &&
			bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:`+v1alpha1.AnnotationConfirmOff+`"`)) {
			by = f.Manager
			if f.Time != nil {
				at = f.Time.Time
			}
		}
	}
	return by, at
}

func (t transition) say(status metav1.ConditionStatus, reason string) func(*v1alpha1.Status) {
	return func(s *v1alpha1.Status) {
		s.Conditions = slices.Clone(s.Conditions)
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionPaused, Status: status, Reason: reason,
			LastTransitionTime: metav1.NewTime(t.Now.Wall),
		})
	}
}

// paused only completes what has begun: a sent command, and our out-of-service taint, which must
// not stay on a node that may return.
func (t transition) paused() Step {
	if t.s.Taints.OutOfService == v1alpha1.TaintOurs {
		return t.untaint()
	}
	wait := Wait{For: lookSeldom, Why: "paused by an admin"}
	for _, rec := range t.s.Devices {
		d, configured := t.device(rec.Device)
		if rec.Op == nil || rec.Op.ID == t.Memory.unsent || !configured {
			continue
		}
		step := t.afterOffCommand(d, rec, false, func(Reason) Step { return wait })
		if rec.Op.Action == agent.ActionOn {
			seen, ok := t.reading(rec.Device, lookSeldom)
			switch {
			case !ok:
				return Read{[]string{rec.Device}}
			case seen.power != agent.PowerOn:
				return wait
			}
			return t.restore(rec)
		}
		return step
	}
	return wait
}

// merge adds another condition that requires the fence.
func (t transition) merge() Step {
	if t.s.Commission != nil { // its effects on the node are no reason for a fence
		return nil
	}
	if t.Trigger == nil || len(t.s.Triggers) >= maxTriggers ||
		slices.ContainsFunc(t.s.Triggers, func(old v1alpha1.Trigger) bool { return old.Type == t.Trigger.Type }) {
		return nil
	}
	return t.write(TriggerJoined, func(s *v1alpha1.Status) { s.Triggers = append(s.Triggers, *t.Trigger) })
}
