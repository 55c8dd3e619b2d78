package statemachine

import (
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// decide is Transition, seen through a mutation: what it is shown, or what it answers, is as in a
// design without one of its safeguards.
func (x *explorer) decide(s *State, in *Input) Step {
	d := x.d
	if *d == (naive{}) {
		return Transition(*in)
	}
	shown := *s
	x.show(&shown)
	seen := x.c.input(&shown)
	if d.RestoreLevelOnly && (s.Phase == phRestoring || s.Phase == phRecovering) {
		return x.restoreLevelOnly(&seen)
	}
	step := Transition(seen)
	w, ok := step.(Write)
	if !ok {
		return step
	}
	switch {
	case d.NoWriteAhead && w.Reason == OffIntent:
		for _, rec := range w.Status.Devices {
			if rec.Op != nil && rec.Op.Seq == w.Status.Operations {
				return Call{Device: rec.Device, Op: *rec.Op}
			}
		}
	case d.OnBeforeRelease && w.Reason == ReleaseBegun:
		return Call{Device: names[0], Op: v1alpha1.Op{Action: agent.ActionOn}}
	case d.GiveUpSilently && w.Reason == RestartsUsedUp:
		w.Reason = Ended
		enter(&w.Status, v1alpha1.PhaseGivenUp)
		return w
	}
	return step
}

// show changes what the state machine is shown.
func (x *explorer) show(s *State) {
	d := x.d
	for i := range s.Plugs {
		p := &s.Plugs[i]
		if d.ResendBlindly && p.State == dvOffIntent && !p.Called && s.Unsent != uint8(1+i) && s.Phase == phPowering {
			p.State = dvSeenOn
		}
		if d.NoSettle {
			if p.Called {
				p.Quiet = 2
			}
			s.Since = 2
		}
		if d.LandedAsRead && s.Phase == phRestoring && (p.State == dvOff || p.State == dvOnIntent && p.Read == rdOn) {
			if p.Called {
				p.Quiet = 2
			}
			s.Since = 2
		}
		if d.UnseenIsOn && s.Phase == phPowering {
			p.Restores = 0
		}
		if d.TrustExitCode && p.RC && p.Sent &&
			(s.Phase == phPowering || s.Phase == phVerifying || s.Phase == phReleasing) {
			p.Read = rdTwice
		}
		if d.NoReleaseRead && s.Phase == phReleasing && p.Read != rdOn {
			p.Read = rdTwice
		}
	}
	switch {
	case s.HeardBefore:
		s.Heard, s.Early = heardNow, false
	case d.DumpForGood && s.Heard == heardLately && !s.Early:
		s.Heard = heardNow
	}
	if d.DumpReady && s.Phase == phIsolated && s.Look == ndReady {
		s.Look = ndNotReady
	}
	if d.DumpCutOff && s.DumpReleased == 2 {
		s.Heard, s.Young = heardNone, false
	}
	if d.DumpUnsaid && s.Phase == phIsolated && s.Heard == heardNow && s.DumpReleased == 0 {
		s.DumpReleased = 1
	}
	if d.TaintFirst && s.Phase == phReleasing && s.Parts&partTainted == 0 {
		s.Parts |= partDeleted | partSettled
	}
	if d.TaintAtOnce && s.Parts&partDeleted != 0 {
		s.Parts |= partSettled
	}
	switch {
	case d.NoLook && s.Look == ndNone && (s.Phase == phPowering || s.Phase == phIsolated),
		d.NoReleaseRead && s.Phase == phReleasing && s.Look == ndNone,
		d.GoneBlind && s.Look == ndGone:
		s.Look = ndNotReady
	}
	if d.NoBootGrace && s.Phase == phBooting {
		s.Wait = 2
	}
	if d.AnyReady {
		s.Called.Renewed, s.Read.Renewed = true, true
	}
}

func (x *explorer) restoreLevelOnly(in *Input) Step {
	all := in.Fence.Status.Devices
	var some []v1alpha1.Device
	for _, rec := range all {
		if rec.Level == max(1, in.Fence.Status.Level) {
			some = append(some, rec)
		}
	}
	in.Fence.Status.Devices = some
	step := Transition(*in)
	if w, ok := step.(Write); ok {
		for _, rec := range all {
			if rec.Level != max(1, in.Fence.Status.Level) {
				w.Status.Devices = append(w.Status.Devices, rec)
			}
		}
		return w
	}
	return step
}
