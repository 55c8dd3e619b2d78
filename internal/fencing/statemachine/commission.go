package statemachine

import (
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// openCommission begins an incident that is a commission, and fixes its configuration.
func (t transition) openCommission(s *v1alpha1.Status, n Node) {
	identify(s, n)
	enter(s, v1alpha1.PhaseCommissioning)
	s.Level, s.ConfigHash = 1, t.Plan.Hash
	s.Commission = &v1alpha1.Commission{Asked: t.Fence.Annotations[v1alpha1.AnnotationCommission]}
}

// dropAsked removes the request when the record has it, or when it comes in the middle of another
// incident. Otherwise it would take effect much later.
func (t transition) dropAsked() Step {
	const key = v1alpha1.AnnotationCommission
	if c := t.s.Commission; c != nil && c.Asked == t.Fence.Annotations[key] {
		return DropAnnotation{Key: key}
	}
	return DropAnnotation{key, "the node is in a fence"}
}

// asked returns the step that begins a requested commission of a node whose last fence has ended,
// or nil without a request.
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

// askedOf reports whether a request is for a node with this boot ID. A request is the boot ID,
// optionally followed by a slash and a text that distinguishes it from earlier requests.
func askedOf(asked, bootID string) bool {
	of, _, _ := strings.Cut(asked, "/")
	return bootID != "" && of == bootID
}

// commissioning switches off one level of devices of a working node that an admin has drained. Any
// deviation ends the commission, and the devices are switched on again. No command is repeated.
func (t transition) commissioning() Step {
	number, devices := t.level()
	switch {
	case t.Unresolved != "":
		return t.failCommission(CommissionFailed, "the configuration cannot be used: "+t.Unresolved)
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

// switchOffCommissioned returns the next step to switch a device off, or nil if it was read off.
func (t transition) switchOffCommissioned(d *nodeplan.Device, level int32) Step {
	rec := recorded(t.s, d.Key)
	switch {
	case rec.State == v1alpha1.DeviceOff:
		return nil
	case rec.State == v1alpha1.DeviceOffIntent && rec.Op.ID == t.Memory.unsent:
		return t.sendCommissionOff(rec, level)
	case rec.State == v1alpha1.DeviceOffIntent:
		return t.afterOffCommand(d, rec, false, func(reason Reason) Step {
			why := "cannot be read"
			if reason == OffUnclear {
				why = "reads off, perhaps not because of that"
			}
			return t.failCommission(
				CommissionFailed,
				fmt.Sprintf("device %s was told to switch off, and %s", d.Key, why),
			)
		})
	case rec.Touched:
		return t.failCommission(CommissionFailed, fmt.Sprintf("device %s was told to switch off, and reads on", d.Key))
	}
	before, ok := t.reading(d.Key, recent)
	switch {
	case !ok:
		return Read{[]string{d.Key}}
	case before.power != agent.PowerOn:
		return t.failCommission(
			CommissionFailed,
			fmt.Sprintf("device %s reads %s before it is switched off", d.Key, before.power),
		)
	}
	n, step := t.present(callWithin)
	if step != nil {
		return step
	}
	if why := t.commissionObstacle(n, level); why != "" {
		return t.failCommission(CommissionFailed, why)
	}
	switch a := t.Policy.Continue; {
	case a == nil, a.Verdict == policy.Allow:
	case a.Verdict != policy.Deny && a.After > 0: // for example after a crash, a process must observe first
		return t.hold(or(a.Reason, "Policy"), a.Message, a.After)
	default: // an admin is present and can ask again
		return t.failCommission(CommissionFailed, or(a.Message, a.Reason))
	}
	return t.intend(OffIntent, d, level, agent.ActionOff)
}

// commissionObstacle returns why a node must not lose its power for a commission, or "" if it may.
// After the first device of a level, it may already have lost it.
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

// sendCommissionOff sends the command that this process has just recorded, unless something has
// changed since.
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

// awaitNodeDown waits until a node goes down after all its feeds were read off.
func (t transition) awaitNodeDown(devices []*nodeplan.Device) Step {
	if t.s.Wait == nil {
		return t.write(AllOff, t.give(v1alpha1.WaitDeparture))
	}
	n, step := t.present(lookEvery / 2)
	if step != nil {
		return step
	}
	left := t.left(t.Plan.BootGrace)
	p := t.pass(devices)
	switch {
	case p.on:
		return t.failCommission(Contradicted, "a device reads on that was off")
	case t.Memory.sinceChange.renewed && (p.missing || p.age > recent):
		return p.read // another person may have switched the machine on
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

// failCommission ends a commission without a proof. What was switched off is switched on again.
func (t transition) failCommission(reason Reason, why string, changes ...func(*v1alpha1.Status)) Step {
	phase := v1alpha1.PhaseRestoring
	if !t.touched() {
		phase = v1alpha1.PhaseFinal
	}
	return t.enter(reason, phase, append(changes, func(s *v1alpha1.Status) {
		s.Abort, s.Commission.Failed = v1alpha1.AbortCommission, why
	})...)
}

// commissioned follows when the machine is back: it writes the proof, and the next level is tried.
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
	case t.Unresolved != "" || t.s.ConfigHash != t.Plan.Hash:
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
