package statemachine

import (
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// openCommission begins an incident that is not a fence. With which configuration is settled here.
func (t transition) openCommission(s *v1alpha1.Status, n Node) {
	identify(s, n)
	enter(s, v1alpha1.PhaseCommissioning)
	s.Level, s.ConfigHash = 1, t.Plan.Hash
	s.Commission = &v1alpha1.Commission{Asked: t.Fence.Annotations[v1alpha1.AnnotationCommission]}
}

// dropAsked removes what was asked for, once the record says that it was taken, or where it comes
// in the middle of something else: kept, it would be taken much later.
func (t transition) dropAsked() Step {
	const key = v1alpha1.AnnotationCommission
	if c := t.s.Commission; c != nil && c.Asked == t.Fence.Annotations[key] {
		return DropAnnotation{Key: key}
	}
	return DropAnnotation{key, "the node is in a fence"}
}

// asked is what to do if the devices of a node whose last fence has ended are to be tried; nil:
// no one has asked.
func (t transition) asked() Step {
	const key = v1alpha1.AnnotationCommission
	asked, ok := t.Fence.Annotations[key]
	if !ok {
		return nil
	}
	n, look := t.node(lookEvery / 2)
	switch c := t.s.Commission; {
	case look != nil:
		return look
	case c != nil && c.Asked == asked:
		return DropAnnotation{Key: key}
	case t.stopAsked():
		return DropAnnotation{key, "the record says that everything is to stop"}
	case n.Missing || n.Leaving || !askedOf(asked, n.BootID):
		return DropAnnotation{key, "it is not the boot ID of the node"}
	}
	return t.reopen(CommissionBegun, n, t.openCommission)
}

// askedOf says whether what was asked for is about a node that has this boot ID: it is the boot ID,
// or that, a slash, and whatever tells it from what was asked for before.
func askedOf(asked, bootID string) bool {
	of, _, _ := strings.Cut(asked, "/")
	return bootID != "" && of == bootID
}

// commissioning has one level of devices take the power of a machine whose node works, which an
// admin has drained for that. Whatever is not as it should be ends it, and what was switched off is
// switched on again: there are no second commands here.
func (t transition) commissioning() Step {
	number, devices := t.level()
	switch {
	case t.Plan.Unresolved != "":
		return t.failCommission(CommissionFailed, "the configuration cannot be used: "+t.Plan.Unresolved)
	case t.s.ConfigHash != t.Plan.Hash:
		return t.failCommission(CommissionFailed, "the configuration has changed meanwhile")
	case len(devices) == 0:
		return t.failCommission(CommissionFailed, "no device is configured that can switch the machine off")
	}
	for _, d := range devices {
		if step := t.switchOffCommissioned(d, number); step != nil {
			return step
		}
	}
	return t.awaitNodeDown(devices)
}

// tryOff returns the next step for a device to be off, nil if it was read off.
func (t transition) switchOffCommissioned(d Device, level int32) Step {
	rec := recorded(t.s, d.Name)
	switch {
	case rec.State == v1alpha1.DeviceOff:
		return nil
	case rec.State == v1alpha1.DeviceOffIntent && rec.Op.ID == t.Memory.unsent:
		return t.sendCommissionOff(rec, level)
	case rec.State == v1alpha1.DeviceOffIntent:
		return t.afterOffCommand(d, rec, false, func(Reason) Step {
			return t.failCommission(
				CommissionFailed,
				fmt.Sprintf("device %s was told to switch off, and cannot be read", d.Name),
			)
		})
	case rec.Touched:
		return t.failCommission(CommissionFailed, fmt.Sprintf("device %s was told to switch off, and reads on", d.Name))
	}
	before, ok := t.reading(d.Name, recent)
	switch {
	case !ok:
		return Read{[]string{d.Name}}
	case before.power != v1alpha1.PowerOn:
		return t.failCommission(
			CommissionFailed,
			fmt.Sprintf("device %s reads %s before it is switched off", d.Name, before.power),
		)
	}
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(NodeGone, v1alpha1.AbortNodeGone)
	}
	if why := t.commissionObstacle(n, level); why != "" {
		return t.failCommission(CommissionFailed, why)
	}
	switch a := t.Policy.Continue; {
	case a.Verdict == Allow:
	case a.Verdict != Deny && a.After > 0: // as who goes on after a crash has to watch for a while
		return t.hold(or(a.Reason, "Policy"), a.Message, a.After)
	default: // an admin is there, and asks again
		return t.failCommission(CommissionFailed, or(a.Message, a.Reason))
	}
	return t.intend(OffIntent, d, level, v1alpha1.ActionOff)
}

// unfit says why a node must not lose its power for a trial; empty: it may. After the first device
// of a level it may have lost it already.
func (t transition) commissionObstacle(n Node, level int32) string {
	begun := false
	for _, d := range t.s.Devices {
		begun = begun || d.Level == level && d.SeenOff
	}
	switch {
	case level == 1 && !askedOf(t.s.Commission.Asked, t.s.BootID):
		return "it was asked for when the node had another boot ID"
	case !n.Cordoned:
		return "the node is not cordoned any more"
	case !begun && !t.cleared(n):
		return "the node does not work any more"
	case !begun && n.BootID != t.s.BootID:
		return "the node has rebooted meanwhile"
	}
	return ""
}

// sendTrial sends the command that this process has just written down, unless something has changed
// meanwhile.
func (t transition) sendCommissionOff(rec v1alpha1.Device, level int32) Step {
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(IntentCancelled, v1alpha1.AbortNodeGone, cancel(rec.Device))
	}
	if why := t.commissionObstacle(n, level); why != "" {
		return t.failCommission(IntentCancelled, why, cancel(rec.Device))
	}
	return t.call(rec)
}

// departing waits for the node to go away, all of whose feeds were read off.
func (t transition) awaitNodeDown(devices []Device) Step {
	if t.s.Wait == nil {
		return t.write(AllOff, t.give(v1alpha1.WaitDeparture))
	}
	n, look := t.node(lookEvery / 2)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(NodeGone, v1alpha1.AbortNodeGone)
	}
	left := t.left(or(t.Plan.BootGrace, DefaultBootGrace))
	p := t.pass(devices)
	switch {
	case p.on:
		return t.failCommission(Contradicted, "a device reads on that was off")
	case t.Memory.sinceChange.renewed && (p.missing || p.age > recent):
		return p.read // somebody may have switched the machine on
	case t.Memory.sinceChange.renewed:
		return t.failCommission(
			WrongPlugSuspected,
			"all devices read off, and the node renewed its Lease after that: they are another machine's",
			t.suspect,
		)
	case n.Ready && left == 0:
		return t.failCommission(CommissionFailed, "all devices read off, and the node is Ready nevertheless")
	case n.Ready:
		return Wait{For: min(left, lookEvery/2), Why: "the node has to go away"}
	case p.unknown && left == 0:
		return t.failCommission(CommissionFailed, "a device cannot be read that was off")
	case p.unknown:
		if step := t.unreadable(p.oldest); step != nil {
			return step
		}
		return p.read
	case p.missing || p.age > recent:
		return p.read
	}
	return t.enter(NodeWentDown, v1alpha1.PhaseRestoring,
		func(s *v1alpha1.Status) { s.Abort = v1alpha1.AbortCommission })
}

// untried ends a commission that has proved nothing: what was switched off is switched on again.
func (t transition) failCommission(reason Reason, why string, changes ...func(*v1alpha1.Status)) Step {
	phase := v1alpha1.PhaseRestoring
	if !t.touched() {
		phase = v1alpha1.PhaseFinal
	}
	return t.enter(reason, phase, append(changes, func(s *v1alpha1.Status) {
		s.Abort, s.Commission.Failed = v1alpha1.AbortCommission, why
	})...)
}

// commissioned is what comes when the machine is back: the proof is written down, and the next
// level is tried.
func (t transition) commissioned(n Node) Step {
	why := t.s.Commission.Failed
	var changes []func(*v1alpha1.Status)
	switch {
	case why != "":
	case t.s.Abort != v1alpha1.AbortCommission:
		why = "it did not come to its end: " + string(t.s.Abort)
	case n.BootID == "" || n.BootID == t.s.BootID:
		why, changes = "the node is back with the boot ID that it had before: its machine has not lost its power",
			append(
				changes,
				t.suspect,
			)
	case t.Plan.Unresolved != "" || t.s.ConfigHash != t.Plan.Hash:
		why = "the configuration has changed meanwhile"
	case t.Memory.progress.failed != "":
		why = "it could not be written down at the node"
	case t.Memory.progress.methods == 0:
		return Act{Commission}
	case t.further():
		return t.enter(NextLevel, v1alpha1.PhaseCommissioning, func(s *v1alpha1.Status) {
			s.Level, s.BootID, s.Abort = max(1, s.Level)+1, n.BootID, v1alpha1.AbortNone
		})
	default:
		return t.enter(Commissioned, v1alpha1.PhaseFinal)
	}
	return t.enter(
		CommissionFailed,
		v1alpha1.PhaseFinal,
		append(changes, func(s *v1alpha1.Status) { s.Commission.Failed = why })...)
}
