package statemachine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

const (
	maxJobs     = 64
	maxHistory  = 16
	maxTriggers = 16
	maxStarts   = 16
)

// enter sets the phase, and the step and stage that it belongs to.
func enter(s *v1alpha1.Status, phase v1alpha1.Phase) {
	s.Phase, s.Retries, s.Wait, s.Hold = phase, 0, nil, nil
	switch phase {
	case v1alpha1.PhaseDetected:
		s.Step, s.Status = v1alpha1.StepIsolation, v1alpha1.StageNew
	case v1alpha1.PhaseIsolating:
		s.Step, s.Status = v1alpha1.StepIsolation, v1alpha1.StageRunning
	case v1alpha1.PhaseIsolated:
		s.Step, s.Status = v1alpha1.StepIsolation, v1alpha1.StageDone
	case v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying,
		v1alpha1.PhaseReleasing,
		v1alpha1.PhaseRestoring,
		v1alpha1.PhaseCommissioning:
		s.Step, s.Status = v1alpha1.StepPowerManagement, v1alpha1.StageRunning
	case v1alpha1.PhaseBooting:
		s.Step, s.Status = v1alpha1.StepPowerManagement, v1alpha1.StageDone
	case v1alpha1.PhaseRecovering:
		s.Step, s.Status = v1alpha1.StepRecovery, v1alpha1.StageRunning
	case v1alpha1.PhaseFinal:
		s.Step, s.Status = v1alpha1.StepRecovery, v1alpha1.StageFinal
	case v1alpha1.PhaseError, v1alpha1.PhaseGivenUp: // of the failed step
		s.Status = v1alpha1.StageError
	}
}

// device returns the record of a device, or nil if it was not touched in this incident.
func device(s *v1alpha1.Status, name string) *v1alpha1.Device {
	for i := range s.Devices {
		if s.Devices[i].Device == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// recorded returns the record of a device, or a zero value.
func recorded(s *v1alpha1.Status, name string) v1alpha1.Device {
	if rec := device(s, name); rec != nil {
		return *rec
	}
	return v1alpha1.Device{}
}

// prove records a reading or a confirmation. A device has one entry for off and one for on, in
// which later readings replace all but the first two.
func prove(s *v1alpha1.Status, e v1alpha1.Evidence) {
	for i := range s.Evidence {
		old := &s.Evidence[i]
		if old.Device != e.Device || old.Source != e.Source || old.Readings[0].Power != e.Readings[0].Power {
			continue
		}
		// The slice may be shared with the input.
		readings := slices.Concat(old.Readings[:min(2, len(old.Readings))], e.Readings[max(0, len(e.Readings)-2):])
		s.Evidence = slices.Clone(s.Evidence)
		s.Evidence[i].Readings = readings
		if e.Op != "" {
			s.Evidence[i].Op = e.Op
		}
		return
	}
	s.Evidence = append(slices.Clip(s.Evidence), e)
}

// archive replaces the ended incident by one line.
func archive(s *v1alpha1.Status, now time.Time) {
	var plugs []string
	for _, d := range s.Devices {
		plugs = append(plugs, fmt.Sprintf("%s %s", d.Device, or(d.State, "untouched")))
	}
	line := fmt.Sprintf(
		"incident %d: %s until %s, released: %s",
		s.Incident,
		s.Phase,
		now.UTC().Format(time.RFC3339),
		or(s.Released, "no"),
	)
	if len(plugs) > 0 {
		line += "; " + strings.Join(plugs, ", ")
	}
	s.History = append(slices.Clone(s.History), line)
	s.History = s.History[max(0, len(s.History)-maxHistory):]
}

// off lists the plugs that are off, or may be, because of this incident.
func off(s *v1alpha1.Status) (off, unknown []string) {
	for _, d := range s.Devices {
		switch {
		case !d.Touched, d.State == v1alpha1.DeviceOn, d.State == v1alpha1.DeviceSeenOn:
		case d.State == v1alpha1.DeviceOff, d.SeenOff && d.State == v1alpha1.DeviceLeftOff:
			off = append(off, d.Device)
		default:
			unknown = append(unknown, d.Device)
		}
	}
	return off, unknown
}

// foundOff names the plugs that stay off because the fence has not switched them off, or returns
// "".
func foundOff(s *v1alpha1.Status) string {
	var plugs []string
	for _, d := range s.Devices {
		if d.FoundOff && d.State == v1alpha1.DeviceLeftOff {
			plugs = append(plugs, d.Device)
		}
	}
	if len(plugs) == 0 {
		return ""
	}
	return "off before the fence, and not by it: " + strings.Join(plugs, ", ") +
		". Somebody may be working on the machine: switch it on when that is over"
}

// conclude derives conditions and fields from the rest of a status.
func conclude(s *v1alpha1.Status, now time.Time) {
	if s.Commission != nil && s.Phase == v1alpha1.PhaseGivenUp && s.Commission.Failed == "" {
		s.Commission.Failed = "it did not come to its end: " + string(s.Abort)
		if s.Abort == v1alpha1.AbortCommission {
			s.Commission.Failed = "the machine was switched off, and its node did not come back"
		}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		})
	}
	s.Conditions = slices.Clone(s.Conditions)
	yes := func(b bool) metav1.ConditionStatus {
		if b {
			return metav1.ConditionTrue
		}
		return metav1.ConditionFalse
	}
	reason, message := string(s.Phase), ""
	if s.Phase == v1alpha1.PhaseGivenUp {
		reason, message = string(or(s.Abort, v1alpha1.Abort(LeftOff))), foundOff(s)
	}
	set(v1alpha1.ConditionComplete, yes(s.Phase.Ended()), reason, message)
	switch off, unknown := off(s); {
	case len(off) > 0:
		message := "off: " + strings.Join(off, ", ")
		if len(unknown) > 0 {
			message += "; not known: " + strings.Join(unknown, ", ")
		}
		set(v1alpha1.ConditionPoweredOff, metav1.ConditionTrue, "Off", message)
	case len(unknown) > 0:
		set(v1alpha1.ConditionPoweredOff, metav1.ConditionUnknown, "NotRead", "not known: "+strings.Join(unknown, ", "))
	default:
		set(v1alpha1.ConditionPoweredOff, metav1.ConditionFalse, "On", "")
	}
	set(v1alpha1.ConditionReleased, yes(s.Released == v1alpha1.ReleasedDone), string(or(s.Released, "No")), "")
	set(v1alpha1.ConditionStopped, yes(s.Phase.Ended() && stopped(s.Abort)), reason, "")
}

// stopped reports whether an admin, or the deletion of the record, ended the fence.
func stopped(abort v1alpha1.Abort) bool {
	return abort == v1alpha1.AbortStopHold || abort == v1alpha1.AbortStopRestore
}
