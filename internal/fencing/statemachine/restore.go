package statemachine

import (
	"slices"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// restoring switches on every device that the fence has switched off, or may have. It leaves a
// device that it has found off, because a person may be working on the machine. First it removes
// our out-of-service taint, which would detach volumes from a running machine. The last device
// comes first, because devices of a level may get their power from those of the next one, as a BMC
// does.
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

// restored follows when every device is on, or is left as it is.
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
	if !t.Plan.DeletesNode() || t.s.Abort != v1alpha1.AbortNone {
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	}
	switch done := &t.Memory.progress; {
	case done.failed != "" && t.s.Retries+1 >= t.Plan.Retries:
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	case done.failed != "":
		return t.write(MethodFailed, func(s *v1alpha1.Status) { s.Retries++ })
	case done.methods == 0:
		return t.deleteNode()
	}
	return t.enter(NodeRemoved, v1alpha1.PhaseFinal)
}

// deleteNode deletes the Node, unless it works again or another client was first: another process
// of ours, whose answer was lost, or an autoscaler.
func (t transition) deleteNode() Step {
	n, look := t.node(lookEvery / 2)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.enter(NodeRemoved, v1alpha1.PhaseFinal)
	case t.cleared(n):
		return t.enter(Ended, v1alpha1.PhaseGivenUp)
	}
	return Act{nodeplan.DeleteNode}
}

// restore returns the next step to switch a device on, or to leave it off and record that. It
// returns nil when that is done.
func (t transition) restore(rec v1alpha1.Device) Step {
	switch rec.State {
	case v1alpha1.DeviceUntouched, v1alpha1.DeviceOn, v1alpha1.DeviceLeftOff:
		return nil
	}
	if rec.Op != nil && rec.Op.ID == t.Memory.unsent {
		if rec.Op.Action == agent.ActionOff {
			return t.write(IntentCancelled, cancel(rec.Device))
		}
		return t.sendOn(rec)
	}
	d, configured := t.device(rec.Device)
	if !configured {
		if step := t.pinned(); step != nil && !t.leavesDevices() {
			return step // do not leave it off: the configuration may come back
		}
		return t.giveUpDevice(d, rec)
	}
	seen, ok := t.reading(rec.Device, recent)
	switch {
	case !ok:
		return Read{[]string{rec.Device}}
	case rec.State == v1alpha1.DeviceOffIntent && seen.power == agent.PowerOff && proves(d, rec, seen):
		return t.offSeen(rec.Device, seen)
	}
	// While a command may still take effect, a reading proves nothing, even if it is as commanded,
	// because the device may have read so before.
	if step := t.quiet(d, rec, seen); step != nil {
		return step
	}
	if seen.power == agent.PowerOn {
		return t.onSeen(rec, seen)
	}
	return t.powerOn(d, rec, seen)
}

// onSeen records that a device reads on when no command to it can be under way.
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

// powerOn switches on a device that reads off or cannot be read, unless it must be left.
func (t transition) powerOn(d *nodeplan.Device, rec v1alpha1.Device, seen deviceReading) Step {
	off := seen.power == agent.PowerOff
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
	step := t.intend(OnIntent, d, rec.Level, agent.ActionOn).(Write)
	device(&step.Status, rec.Device).SeenOff = rec.SeenOff || off
	return step
}

// leaves reports whether a device must not be switched on.
func (t transition) leaves(rec v1alpha1.Device) bool {
	// A machine that worked before its commission gets its power back, unlike those that
	// have failed.
	power := rec.Level > 0 && t.Plan.PowerOn != nodeplan.Always && t.s.Commission == nil
	return t.leavesDevices() || power || rec.FoundOff || rec.Restores >= t.Plan.Retries
}

// leavesDevices reports whether no device may be switched on any more.
func (t transition) leavesDevices() bool {
	return t.s.Abort == v1alpha1.AbortStopHold || t.s.Abort == v1alpha1.AbortNodeGone
}

// clean reports whether no program still runs on the machine that ran when its storage was cut off.
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

// giveUpDevice leaves a device that is no longer configured, once no command to it can be under
// way.
func (t transition) giveUpDevice(d *nodeplan.Device, rec v1alpha1.Device) Step {
	if left := d.Settle + t.callOf(d, rec) - t.quietFor(t.Now, t.Memory.seen(rec.Device)); left > 0 {
		return Wait{For: left, Why: "a command may still be under way"}
	}
	return t.leave(rec.Device, false)
}

// sendOn sends the command that this process has just recorded, unless the machine may now belong
// to another node.
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
