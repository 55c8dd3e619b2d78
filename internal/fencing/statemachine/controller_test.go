package statemachine

import (
	"fmt"
	"slices"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// controller is the real state machine in the state, and what becomes of its step.
func (x *explorer) controller(s State) {
	switch {
	case !s.Up:
		return
	case s.Calling != 0:
		x.answers(s)
		return
	case s.Stale:
		n := s
		n.reload()
		x.addQuiet("the controller hears of what an admin wrote", n, "")
	}
	in := x.c.input(&s)
	step := x.decide(&s, &in)
	switch step := step.(type) {
	case Write:
		x.write(s, &in, step)
	case Look:
		x.look(s, &in)
	case Read:
		x.read(s, &in, step)
	case Call:
		x.call(s, step)
	case Act:
		x.act(s, &in, step)
	case Release:
		x.release(s, &in, step)
	case SetFinalizer:
		x.metadata(s, &in, step, "finalizer", func(n *State) { n.Finalizer = step.Present })
	case DropAnnotation:
		x.metadata(s, &in, step, "annotation refused", func(n *State) { n.Request = reqNone })
	case Wait:
		x.wait(s, &in, step)
	default:
		panic(fmt.Sprintf("%T", step))
	}
}

// after is the state with the memory of a step done.
func (x *explorer) after(s State, in *Input, step Step, o Outcome) State {
	if o.Began == (clock.Reading{}) {
		o.Began, o.Ended = now, now
	}
	x.deed = deed{step: step, outcome: o}
	m := x.memory(&s, in).After(&in.Fence.Status, step, o)
	s.remember(&m, &in.Fence.Status, now)
	return s
}

func (x *explorer) effect(label string, s State, bad string) {
	x.push(edge{label: label, s: s, quiet: true, acts: true, bad: bad})
}

// swap is a write with the resource version of what was read.
func (x *explorer) swap(s State, in *Input) (won bool) {
	if s.Stale {
		n := x.after(s, in, Write{Status: in.Fence.Status}, Outcome{Failed: true})
		n.reload()
		x.effect("conflict", n, "")
		return false
	}
	return true
}

func (x *explorer) metadata(s State, in *Input, step Step, label string, change func(*State)) {
	if x.swap(s, in) {
		n := x.after(s, in, step, Outcome{})
		change(&n)
		n.reload()
		x.effect(label, n, "")
	}
}

func (x *explorer) write(s State, in *Input, step Write) {
	if !x.swap(s, in) {
		return
	}
	n := s
	n.record(&step.Status)
	m := x.memory(&s, in)
	m = m.After(&in.Fence.Status, step, Outcome{Began: now, Ended: now})
	n.remember(&m, &step.Status, now)
	bad := x.cutsOff(&s, step.Reason)
	switch step.Reason {
	case Begun:
		n.Early = n.Heard != heardNone
	case Confirmed: // it is not asked for again

		n.Request = reqNone
		n.reload()
	case IncidentReopened:
		x.reopened(&n)
	}
	if x.d.RestartForgets && step.Reason == FlowRestarted {
		for i := range n.Plugs {
			p := &n.Plugs[i]
			p.State, p.Tries, p.Restores, p.Touched, p.SeenOff, p.FoundOff = 0, 0, 0, false, false, false
		}
		n.Released, n.Verified, n.Manual = 0, false, false
	}
	if step.Status.Phase.Ended() && !in.Fence.Status.Phase.Ended() {
		bad = x.end(&n, &step.Status)
	}
	x.deed = deed{step: step, wrote: true}
	x.effect(string(step.Reason), n, bad)
	if s.Crashes > 0 { // the write was made, but the answer was lost
		n.Crashes--
		m := x.memory(&s, in).After(&in.Fence.Status, step, Outcome{Failed: true})
		n.remember(&m, &step.Status, now)
		n.reload()
		x.deed = deed{step: step, outcome: Outcome{Failed: true}, wrote: true}
		x.push(edge{label: string(step.Reason) + ", but the answer is lost", s: n, bad: bad})
	}
}

func (x *explorer) reopened(n *State) {
	n.Acked, n.ConfirmMade, n.Request, n.Restart = false, false, reqNone, false
	n.Early = n.Heard != heardNone
	for i := range n.Plugs {
		p := &n.Plugs[i]
		p.Effects, p.Sent, p.ReadOn, p.ExtOn, p.ExtNow, p.RC = 0, false, false, false, false, false
	}
	n.reload()
}

func (x *explorer) look(s State, in *Input) {
	look := func(renewed bool) State {
		node := x.c.node(s.Node)
		if renewed {
			node.Renewal = "1"
		}
		n := x.after(s, in, Look{}, Outcome{Node: node})
		n.Called.Maybe = n.Called.Based && (n.Called.Maybe || s.Fresh)
		n.Read.Maybe = n.Read.Based && (n.Read.Maybe || s.Fresh)
		return n
	}
	switch {
	case s.Node == ndReady && s.Fresh: // it renews all the time
		x.addQuiet("look: Ready, renewed", look(true), "")
	case s.Called.Maybe && !s.Called.Renewed, s.Read.Maybe && !s.Read.Renewed:
		x.addQuiet("look: not renewed", look(false), "")
		x.addQuiet("look: renewed until it was lost", look(true), "")
	default:
		x.addQuiet("look", look(false), "")
	}
}

func (x *explorer) read(s State, in *Input, step Read) {
	began := s
	powers := make([]agent.Power, len(step.Devices))
	for j, name := range step.Devices {
		p := &s.Plugs[slices.Index(names[:], name)]
		powers[j] = agent.PowerOff
		if p.On {
			powers[j] = agent.PowerOn
			p.ReadOn = true
		}
		p.ExtNow = false
	}
	x.addQuiet("read", x.after(s, in, step, Outcome{Powers: powers}), "")
	if began.Faults == 0 {
		return
	}
	for j := range step.Devices {
		n := began
		n.Faults--
		unread := slices.Clone(powers)
		unread[j] = agent.PowerUnknown
		x.push(edge{label: "read: no answer from " + step.Devices[j], s: x.after(n, in, step, Outcome{Powers: unread})})
	}
}

func (x *explorer) call(s State, step Call) {
	i := slices.Index(names[:], step.Device)
	n, bad := s, ""
	p := &n.Plugs[i]
	n.Calling, n.CallOn = uint8(1+i), step.Op.Action == agent.ActionOn
	if n.CallOn {
		switch {
		case s.Released < 2 && s.Abort == abNone:
			bad = "on before the release, or an abort"
		case s.OutOfService:
			bad = "on while our out-of-service taint is on the node"
		}
		x.effect("call on "+step.Device, n, bad)
		return
	}
	switch {
	case s.Look == ndReady || s.Look == ndNone && s.Node == ndReady:
		bad = "off for a node that is Ready"
	case s.Look == ndGone || s.Look == ndNone && s.Node == ndGone:
		bad = "off for a node that is gone"
	case p.Sent && !p.ReadOn:
		bad = "off sent again, without a reading that says on"
	case s.Abort != abNone || s.Acked:
		bad = "off after the abort"
	case p.Pending == pendOff:
		bad = "off sent again while the first is under way"
	}
	p.Sent, p.ReadOn = true, false
	x.effect("call off "+step.Device, n, bad)
}

// answers are those of a device to a command.
func (x *explorer) answers(s State) {
	i, on := int(s.Calling-1), s.CallOn
	in := x.c.input(&s)
	done := func(n State) State {
		n.Calling, n.CallOn = 0, false
		op := agent.Action(agent.ActionOff)
		if on {
			op = agent.ActionOn
		}
		return x.after(n, &in, Call{Device: names[i], Op: v1alpha1.Op{Action: op}}, Outcome{})
	}
	n, bad := s, ""
	if n.Plugs[i].RC = !on; on {
		n.Plugs[i].On = true
	} else {
		bad = x.switchOff(&n, i)
	}
	x.effect("done", done(n), bad)
	if s.Faults == 0 {
		return
	}
	n = s
	n.Faults--
	n.Plugs[i].RC = !on
	x.push(edge{label: "success or failure, without effect", s: done(n), acts: true})
	if n.Plugs[i].Pending = pendOff; on {
		n.Plugs[i].Pending = pendOn
	}
	x.push(edge{label: "killed, the command is still under way", s: done(n), acts: true})
}

func (x *explorer) act(s State, in *Input, step Act) {
	n := x.after(s, in, step, Outcome{})
	bad := ""
	switch step.Method {
	case nodeplan.MarkUnschedulable:
		n.Taint = true
		if x.d.OwnCordon && !n.Unschedulable || x.d.OwnCordon && n.OurCordon {
			n.Unschedulable, n.OurCordon = true, true
		}
	case nodeplan.MarkSchedulable:
		n.Taint = false
		if n.OurCordon {
			n.Unschedulable, n.OurCordon = false, false
			if n.AdminCordons {
				bad = "the admin's cordon was removed"
			}
		}
	}
	x.effect(step.Method, n, bad)
}

func (x *explorer) release(s State, in *Input, step Release) {
	n, bad := x.after(s, in, step, Outcome{}), ""
	switch step.Part {
	case Taint:
		n.OutOfService = s.Node != ndGone
		if bad = x.released(&s); s.Parts&partSettled == 0 {
			bad = "out-of-service taint before the pods were gone for a while"
		}
	case DeletePods:
		if bad = x.released(&s); s.Phase != phReleasing {
			bad = x.freed(&s)
		}
	case Untaint:
		if !x.d.TaintLate && (!x.d.StopKeepsTaint || s.Abort != abHold) {
			n.OutOfService = false
		}
	}
	x.effect(string(step.Part), n, bad)
}

// wait is that time passes. As long as a command is under way it does not pass the time that the
// device has for it.
func (x *explorer) wait(s State, in *Input, step Wait) {
	if step.For == 0 {
		return
	}
	at := clock.Reading{Wall: now.Wall.Add(step.For), Monotonic: now.Monotonic + step.For}
	m := x.memory(&s, in)
	n := s
	n.remember(&m, &in.Fence.Status, at)
	for i := range n.Plugs {
		p := &n.Plugs[i]
		if p.Pending != pendNone && p.settled(n.Since) && !x.d.SettleTooShort {
			return
		}
	}
	n.hears(at.SinceAtLeast(in.Dump))
	n.Young = n.Young && at.SinceAtLeast(m.begun) < dumpOver
	whole := lookEvery
	if s.Phase == phIsolated {
		whole = readAhead
	}
	if n.Wait == 1 && step.For >= whole {
		n.Wait = 2
	}
	if n != s {
		x.addQuiet("time passes", n, "")
	}
	if len(step.Ahead) > 0 {
		x.readAhead(n, in, m, step.Ahead, at)
	}
}

// readAhead is that devices are read in the last moment of a wait.
func (x *explorer) readAhead(s State, in *Input, m Memory, devices []string, at clock.Reading) {
	read := func(n State, powers []agent.Power) State {
		step, o := Read{devices}, Outcome{Began: at, Ended: at, Powers: powers}
		x.deed = deed{step: step, outcome: o}
		m := m.After(&in.Fence.Status, step, o)
		n.remember(&m, &in.Fence.Status, at)
		return n
	}
	powers := make([]agent.Power, len(devices))
	for j, name := range devices {
		p := &s.Plugs[slices.Index(names[:], name)]
		powers[j] = agent.PowerOff
		if p.On {
			powers[j] = agent.PowerOn
		}
		p.ReadOn, p.ExtNow = p.ReadOn || p.On, false
	}
	x.addQuiet("read ahead", read(s, powers), "")
	if s.Faults > 0 {
		s.Faults--
		powers = slices.Clone(powers)
		powers[0] = agent.PowerUnknown
		x.push(edge{label: "read ahead: no answer from " + devices[0], s: read(s, powers)})
	}
}

// memory is that of the process, without what a mutation lets the state machine believe.
func (x *explorer) memory(s *State, in *Input) Memory {
	if *x.d == (naive{}) {
		return in.Memory
	}
	return x.c.input(s).Memory
}
