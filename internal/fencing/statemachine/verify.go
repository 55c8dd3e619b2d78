package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// verifying reads every feed of the level and the node once more.
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
		// Never a second command: a person keeps this machine on, or the device is not its own.
		return t.abort(Contradicted, v1alpha1.AbortGaveUp)
	case p.unknown:
		if step := t.unreadable(p.oldest); step != nil {
			return step
		}
		if t.s.Retries+1 >= t.Plan.Retries {
			return t.levelFails(PowerFailed)
		}
		return t.write(PassUnread, func(s *v1alpha1.Status) { s.Retries++ })
	case p.missing:
		return p.read
	}
	if !t.Memory.present { // before any other reading: the Lease is compared since the last one
		return Look{}
	}
	// All feeds were read off. If the node is still shown Ready, either its condition is old and
	// will change, or it works, and these are not its feeds.
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
			return Wait{For: apart - p.age, Why: "feeds are read twice", Next: keysOf(devices)}
		}
		return p.read
	}
	if p.age > proofWithin {
		return p.read
	}
	n, step := t.present(proofWithin)
	switch {
	case step != nil:
		return step
	case n.Ready:
		return Look{}
	}
	return t.enter(Verified, v1alpha1.PhaseReleasing, func(s *v1alpha1.Status) {
		s.Verified = true
		for _, d := range devices {
			prove(s,
				v1alpha1.Evidence{
					Device: d.Key, Readings: readings(t.Memory.seen(d.Key)),
					Source: v1alpha1.SourceAgent,
				})
		}
	})
}

// off reports whether there are devices and each of them was read off after a command of this
// incident.
func (t transition) off(devices []*nodeplan.Device) bool {
	for _, d := range devices {
		if rec := device(t.s, d.Key); rec == nil || rec.State != v1alpha1.DeviceOff {
			return false
		}
	}
	return len(devices) > 0
}

// repinned is pinned for phases in which the node may return or have our out-of-service taint.
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

// suspect records that the devices may be those of another machine.
func (t transition) suspect(s *v1alpha1.Status) {
	t.set(
		v1alpha1.ConditionDeviceSuspect,
		"NodeWorks",
		"all devices read off, and the node renewed its Lease after that",
	)(
		s,
	)
}

// pass has what is known about all devices of a level.
type pass struct {
	on, unknown, missing bool          // a device reads on, cannot be read, was not read since the last command
	twice                bool          // all were read off twice in a row
	age                  time.Duration // of the oldest reading
	oldest               clock.Reading
	read                 Step
}

func (t transition) pass(devices []*nodeplan.Device) pass {
	p := pass{twice: true}
	for i, d := range devices {
		s := t.Memory.seen(d.Key)
		switch s.power {
		case agent.PowerOn:
			p.on = true
		case agent.PowerOff:
		case agent.PowerUnknown:
			p.unknown = true
		default:
			p.missing = true
			continue
		}
		p.twice = p.twice && s.twice
		if age := t.Now.SinceAtMost(s.at); i == 0 || age > p.age {
			p.age, p.oldest = age, s.at
		}
	}
	p.read = Read{keysOf(devices)}
	return p
}
