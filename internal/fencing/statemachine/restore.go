package statemachine

import (
	"slices"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// restoring switches on again what the fence has switched off, or may have, in whatever level;
// first of all it removes our out-of-service taint, which would detach volumes from a machine that
// runs. What was switched off last comes first: the devices of a level may have their own power
// from those of the next one, as a BMC has.
func (t transition) restoring() Step {
	if t.s.Taints.OutOfService == v1alpha1.TaintOurs {
		return t.untaint()
	}
	for _, rec := range slices.Backward(t.s.Devices) {
		if rec.Level == 0 && t.s.Abort == v1alpha1.AbortNone {
			continue // of the recovery step
		}
		if step := t.restore(rec); step != nil {
			return step
		}
	}
	return t.restored()
}

func (t transition) untaint() Step {
	if !t.Memory.progress.untainted {
		return Release{Part: Untaint}
	}
	return t.freed(func() Step {
		return t.write(TaintRemoved, func(s *v1alpha1.Status) { s.Taints.OutOfService = v1alpha1.TaintNone })
	})
}

// restored is what comes when every device is on, or left as it is.
func (t transition) restored() Step {
	leftOff := false
	for _, d := range t.s.Devices {
		leftOff = leftOff || d.State == v1alpha1.DeviceLeftOff
	}
	switch t.s.Abort {
	case v1alpha1.AbortStopHold, v1alpha1.AbortNodeGone, v1alpha1.AbortGaveUp:
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	}
	if !leftOff {
		return t.enter(PowerRestored, v1alpha1.PhaseBooting, t.give(v1alpha1.WaitBootGrace))
	}
	if !t.Plan.DeleteNode || t.s.Abort != v1alpha1.AbortNone {
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	}
	switch done := &t.Memory.progress; {
	case done.failed != "" && t.s.Retries+1 >= t.Plan.retries():
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	case done.failed != "":
		return t.write(MethodFailed, func(s *v1alpha1.Status) { s.Retries++ })
	case done.methods == 0:
		return Act{DeleteNode}
	}
	return t.enter(NodeRemoved, v1alpha1.PhaseFinal)
}

// restore returns the next step for a device to be on, or to be left off with the record saying so;
// nil: it is.
func (t transition) restore(rec v1alpha1.Device) Step {
	switch rec.State {
	case v1alpha1.DeviceUntouched, v1alpha1.DeviceOn, v1alpha1.DeviceLeftOff:
		return nil
	}
	if rec.Op != nil && rec.Op.ID == t.Memory.unsent {
		if rec.Op.Action == v1alpha1.ActionOff {
			return t.write(IntentCancelled, cancel(rec.Device))
		}
		return t.sendOn(rec)
	}
	d, configured := t.Plan.device(rec.Device)
	if !configured {
		if step := t.pinned(); step != nil && !t.leavesDevices() {
			return step // to leave it off for a configuration that may come back would be a pity
		}
		return t.giveUpDevice(d, rec)
	}
	seen, ok := t.reading(rec.Device, recent)
	switch {
	case !ok:
		return Read{[]string{rec.Device}}
	case rec.State == v1alpha1.DeviceOffIntent && seen.power == v1alpha1.PowerOff:
		return t.offSeen(rec.Device, seen)
	}
	// Whatever it reads proves nothing while a command may still land, also where it reads as
	// commanded: it may have read so before.
	if step := t.quiet(d, rec, seen); step != nil {
		return step
	}
	if seen.power == v1alpha1.PowerOn {
		return t.onSeen(rec, seen)
	}
	return t.powerOn(d, rec, seen)
}

// onSeen notes that a device reads on when no command can be under way to it.
func (t transition) onSeen(rec v1alpha1.Device, seen deviceReading) Step {
	return t.write(OnSeen, func(s *v1alpha1.Status) {
		rec := device(s, rec.Device)
		e := v1alpha1.Evidence{Device: rec.Device, Readings: readings(seen), Source: v1alpha1.SourceAgent}
		if rec.Op != nil {
			e.Op = rec.Op.ID
		}
		prove(s, e)
		rec.State, rec.Op = v1alpha1.DeviceOn, nil
	})
}

// powerOn switches a device on that reads off, or cannot be read, unless it has to be left.
func (t transition) powerOn(d Device, rec v1alpha1.Device, seen deviceReading) Step {
	off := seen.power == v1alpha1.PowerOff
	if t.leaves(rec) {
		return t.leave(rec.Device, off)
	}
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n) && t.s.Abort != v1alpha1.AbortNodeGone:
		return t.abort(NodeGone, v1alpha1.AbortNodeGone)
	case rec.Level == 0 && !t.clean(n) && t.s.Abort == v1alpha1.AbortNodeReady:
		return t.hold(
			"RestartNeeded",
			"pods were released whose storage this node could not reach: restart the machine before it gets it back",
			0,
		)
	case rec.Level == 0 && !t.clean(n):
		return t.leave(rec.Device, off)
	}
	step := t.intend(OnIntent, d, rec.Level, v1alpha1.ActionOn).(Write)
	device(&step.Status, rec.Device).SeenOff = rec.SeenOff || off
	return step
}

// leaves says that a device is not to be switched on.
func (t transition) leaves(rec v1alpha1.Device) bool {
	// A machine that worked before it was tried has its power back, whatever becomes of those that
	// have failed.
	power := rec.Level > 0 && or(t.Plan.PowerOn, PowerOnAlways) != PowerOnAlways && t.s.Commission == nil
	return t.leavesDevices() || power || rec.Restores >= t.Plan.retries()
}

// handsOff says that nothing is to be switched on any more.
func (t transition) leavesDevices() bool {
	return t.s.Abort == v1alpha1.AbortStopHold || t.s.Abort == v1alpha1.AbortNodeGone
}

// clean says that no program runs on the machine any more that ran when its storage was taken away.
func (t transition) clean(n Node) bool {
	return t.s.StorageReleased == v1alpha1.ReleasedNo || t.s.Released == v1alpha1.ReleasedDone ||
		n.BootID != "" && n.BootID != t.s.BootID
}

func (t transition) leave(name string, off bool) Step {
	return t.write(LeftOff, func(s *v1alpha1.Status) {
		rec := device(s, name)
		rec.State, rec.Op = v1alpha1.DeviceLeftOff, nil
		rec.SeenOff = rec.SeenOff || off
	})
}

// abandon leaves a device that the configuration does not have any more, once nothing can be under
// way to it.
func (t transition) giveUpDevice(d Device, rec v1alpha1.Device) Step {
	if left := d.settle() + t.callOf(d, rec) - t.quietFor(t.Now, t.Memory.seen(rec.Device)); left > 0 {
		return Wait{For: left, Why: "a command may still be under way"}
	}
	return t.leave(rec.Device, false)
}

// sendOn sends the command that this process has just written down, unless the machine may be
// another's by now.
func (t transition) sendOn(rec v1alpha1.Device) Step {
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(IntentCancelled, v1alpha1.AbortNodeGone, cancel(rec.Device))
	case t.leavesDevices():
		return t.write(IntentCancelled, cancel(rec.Device))
	}
	return t.call(rec)
}
