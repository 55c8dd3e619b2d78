package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// verifying reads every feed of the level once more, and the node.
func (t transition) verifying() Step {
	if step := t.repinned(); step != nil {
		return step
	}
	_, devices := t.level()
	p := t.pass(devices)
	switch {
	case !t.off(devices):
		return t.fail(PowerFailed)
	case p.on:
		// Never a second command: somebody wants this machine on, or the device is another's.
		return t.abort(Contradicted, v1alpha1.AbortGaveUp)
	case p.unknown:
		if step := t.unreadable(p.oldest); step != nil {
			return step
		}
		if t.s.Retries+1 >= t.Plan.retries() {
			return t.levelFails(PowerFailed)
		}
		return t.write(PassUnread, func(s *v1alpha1.Status) { s.Retries++ })
	case p.missing:
		return p.read
	}
	if !t.Memory.present { // before any other reading: it is since the last one that the Lease is compared
		return Look{}
	}
	// All feeds were read off. A node that is shown Ready nevertheless is either a condition that
	// is left from before, and will change; or it works, and these are not its feeds.
	if m := &t.Memory; m.node.Ready && !t.gone(m.node) {
		if m.sinceRead.renewed {
			return t.returned(WrongPlugSuspected, t.suspect)
		}
		if age := t.Now.SinceAtMost(m.looked); age < lookEvery/2 {
			return Wait{For: lookEvery/2 - age, Why: "the node is shown Ready, and all its feeds are off"}
		}
		return Look{}
	}
	if !p.twice {
		if p.age < apart {
			return Wait{For: apart - p.age, Why: "feeds are read twice"}
		}
		return p.read
	}
	if p.age > proofWithin {
		return p.read
	}
	n, look := t.node(proofWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(NodeGone, v1alpha1.AbortNodeGone)
	case n.Ready:
		return Look{}
	}
	return t.enter(Verified, v1alpha1.PhaseReleasing, func(s *v1alpha1.Status) {
		s.Verified = true
		for _, d := range devices {
			prove(s,
				v1alpha1.Evidence{
					Device: d.Name, Readings: readings(t.Memory.seen(d.Name)),
					Source: v1alpha1.SourceAgent,
				})
		}
	})
}

// off says that there are devices, and that each of them was read off after a command of this
// incident.
func (t transition) off(devices []Device) bool {
	for _, d := range devices {
		if rec := device(t.s, d.Name); rec == nil || rec.State != v1alpha1.DeviceOff {
			return false
		}
	}
	return len(devices) > 0
}

// repinned is what pinned is where the node may return meanwhile, or our out-of-service taint may
// be on it.
func (t transition) repinned() Step {
	wait := t.pinned()
	if wait == nil {
		return nil
	}
	n, look := t.node(lookEvery / 2)
	switch {
	case t.s.Taints.OutOfService == v1alpha1.TaintOurs:
		return t.untaint()
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(NodeGone, v1alpha1.AbortNodeGone)
	case n.Ready:
		return t.abort(Returned, v1alpha1.AbortNodeReady)
	}
	return wait
}

// suspect says that the devices are perhaps those of another machine.
func (t transition) suspect(s *v1alpha1.Status) {
	t.set(
		v1alpha1.ConditionDeviceSuspect,
		"NodeWorks",
		"all devices read off, and the node renewed its Lease after that",
	)(
		s,
	)
}

// pass is what is known of all devices of a level together.
type pass struct {
	on, unknown, missing bool          // one of them reads on, cannot be read, was not read since the last command
	twice                bool          // all of them were read off twice in a row
	age                  time.Duration // of the oldest reading
	oldest               clock.Reading
	read                 Step
}

func (t transition) pass(devices []Device) pass {
	p := pass{twice: true}
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
		s := t.Memory.seen(d.Name)
		switch s.power {
		case v1alpha1.PowerOn:
			p.on = true
		case v1alpha1.PowerOff:
		case v1alpha1.PowerUnknown:
			p.unknown = true
		default:
			p.missing = true
			continue
		}
		p.twice = p.twice && s.twice
		if age := t.Now.SinceAtMost(s.at); len(names) == 1 || age > p.age {
			p.age, p.oldest = age, s.at
		}
	}
	p.read = Read{names}
	return p
}
