package statemachine

// edge is what may happen in a state.
type edge struct {
	label string
	s     State
	quiet bool // it happens also when nothing goes wrong any more and no person acts
	acts  bool // the controller writes, or changes something
	bad   string
}

// explorer generates edges.
type explorer struct {
	c   *scenario
	d   *naive
	out []edge

	recording bool
	deed      deed
	deeds     []deed // of out, while recording
}

// deed is what the controller's process did on an edge, for a memory that is not made from a state.
type deed struct {
	step    Step // nil: nothing
	outcome Outcome
	wrote   bool // the record is as the step has it
}

func (x *explorer) push(e edge) {
	x.out = append(x.out, e)
	if x.recording {
		x.deeds, x.deed = append(x.deeds, x.deed), deed{}
	}
}

func (x *explorer) add(label string, s State) { x.push(edge{label: label, s: s}) }

func (x *explorer) addQuiet(label string, s State, bad string) {
	x.push(edge{label: label, s: s, quiet: true, bad: bad})
}

func (x *explorer) successors(s State) []edge {
	x.out, x.deeds = x.out[:0], x.deeds[:0]
	x.process(s)
	x.machine(s)
	x.human(s)
	x.controller(s)
	return x.out
}

// process is what happens to the controller's process, and to what it has left behind.
func (x *explorer) process(s State) {
	if s.Up && s.Crashes > 0 {
		n := s
		n.Crashes--
		call, on := n.Calling, n.CallOn
		n.forget()
		if call == 0 {
			x.add("crash", n)
			if !s.Stale && (s.Heard != heardNone || s.Look != ndNone || s.Plugs[0].Read != rdNone ||
				s.Plugs[1].Read != rdNone) {
				x.add("the process stands still for a minute", x.later(s))
			}
		} else {
			travels, landed := n, n
			p, bad := &travels.Plugs[call-1], ""
			if on {
				p.Pending, landed.Plugs[call-1].On = pendOn, true
			} else {
				p.Pending = pendOff
				bad = x.switchOff(&landed, int(call-1))
			}
			x.add("crash, the command is lost", n)
			x.add("crash, the command is still under way", travels)
			x.push(edge{label: "crash, the command has landed", s: landed, bad: bad})
		}
	}
	if !s.Up {
		n := s
		n.Up = true
		n.reload()
		x.addQuiet("the controller starts", n, "")
	}
	for i := range x.c.plugs() {
		switch s.Plugs[i].Pending {
		case pendOff:
			n := s
			n.Plugs[i].Pending = pendNone
			x.addQuiet("the command under way is lost", n, "")
			bad := x.switchOff(&n, i)
			x.addQuiet("the command under way lands", n, bad)
		case pendOn:
			n := s
			n.Plugs[i].Pending = pendNone
			x.addQuiet("the command under way is lost", n, "")
			n.Plugs[i].On = true
			x.addQuiet("the command under way lands", n, "")
		}
	}
}

// later is a state in which whatever was seen is old.
func (x *explorer) later(s State) State {
	s.Crashes--
	s.Heard, s.Early, s.Young = heardNone, false, false
	if s.LookOld = s.Phase == phVerifying && s.Look != ndNone; !s.LookOld {
		s.Look = ndNone
	}
	for i := range s.Plugs {
		switch p := &s.Plugs[i]; p.Read {
		case rdOn:
			p.Read = rdNone
		case rdUnknown:
			p.Read = rdUnknownOld
		case rdOff:
			p.Read = rdOffOld
		case rdTwice:
			p.Read = rdTwiceOld
		}
	}
	return s
}

// machine is what node and plugs do by themselves.
func (x *explorer) machine(s State) {
	powered := x.c.powered(&s)
	switch s.Node {
	case ndNotReady:
		if powered && s.Kernel == kernelRuns && s.Flaps > 0 {
			n := s
			n.Flaps--
			n.Node, n.Fresh = ndReady, true
			x.add("the node is Ready", n)
		}
		if x.c.gone && s.Admins > 0 {
			n := s
			n.Admins--
			n.Node, n.Fresh = ndGone, false
			x.add("the node is deleted", n)
		}
	case ndGone:
		if s.Admins > 0 && s.Phase == phGivenUp {
			n := s
			n.Admins--
			n.Node = ndNotReady
			x.add("the node is no longer about to be deleted", n)
		}
	case ndReady:
		if !s.Fresh && powered && s.Kernel == kernelRuns && s.Flaps > 0 {
			n := s
			n.Flaps--
			n.Fresh = true
			x.add("the node reports again, and was shown Ready all the time", n)
		}
		n := s
		n.Node = ndNotReady
		switch {
		case !s.Fresh:
			x.addQuiet("the node is not shown Ready any more", n, "")
		case s.Flaps > 0:
			n.Flaps--
			n.Fresh = false
			x.add("the node is lost again", n)
			n.Node = ndReady
			x.add("the node is lost again, and still shown Ready", n)
		}
	}
	x.kernel(s, powered)
	for i := range x.c.plugs() {
		if s.Externals > 0 && !s.Plugs[i].On {
			n := s
			n.Externals--
			p := &n.Plugs[i]
			p.On, p.ExtOn, p.ExtNow = true, true, true
			x.add("somebody else powers on", n)
		}
	}
}

// kernel is what the machine's does: it stops and writes a dump, and tells of that. Then the
// machine restarts, and runs the pods that it finds to be its own. That takes longer than a
// message is good for, which is what the release rests on.
func (x *explorer) kernel(s State, powered bool) {
	switch n := s; {
	case s.Kernel == kernelRuns && powered && !s.Fresh && s.Dumps > 0:
		n.Dumps--
		n.Kernel = kernelDumps
		x.add("the kernel stops, and writes a dump", n)
	case s.Kernel == kernelDumps:
		n.Kernel = kernelRestarts
		x.addQuiet("the dump is written", n, "")
		if s.Up {
			n = s
			n.Heard, n.Early = heardNow, false
			n.HeardBefore = x.d.DumpOfBefore && s.Phase == phNew
			x.add(labelHeard, n)
		}
	case s.Kernel == kernelRestarts && s.Heard != heardNow:
		n.Kernel = kernelRuns
		x.addQuiet("the machine has rebooted", n, "")
	}
}

const labelHeard = "the kernel says that it writes a dump"

// human is what admins do.
func (x *explorer) human(s State) {
	end := s.Phase == phFinal || s.Phase == phGivenUp
	if s.Phase == phGivenUp && s.Incident < x.c.incidents && !s.Restart {
		n := s
		n.Restart, n.Request, n.Stale = true, reqNone, s.Up
		x.add("admin restarts", n)
	}
	if s.Admins == 0 {
		return
	}
	n := s
	n.Admins--
	if n.Stale = s.Up; x.c.stop && !end && s.Request == reqNone && s.Abort != abHold && s.Abort != abRestore &&
		s.Phase != phNew {
		stop := n
		stop.Acked = x.d.AcknowledgeAtOnce
		stop.Request = reqHold
		x.add("admin stops: hold", stop)
		stop.Request = reqRestore
		x.add("admin stops: restore", stop)
	}
	if x.c.confirm && s.Request == reqNone && s.Released == 0 && !x.c.powered(&s) && !s.ConfirmMade {
		c := n
		c.Request, c.ConfirmMade = reqConfirm, true
		x.add("admin confirms", c)
	}
	if x.c.pause {
		p := n
		p.Pause = !s.Pause
		x.add("admin pauses, or resumes", p)
		p.Pause, p.Stale = s.Pause, s.Stale
		p.Hold = !s.Hold
		x.add("the policy holds, or allows", p)
	}
	if x.c.cordon && !s.AdminCordons {
		c := n
		c.Stale = s.Stale
		c.AdminCordons, c.Unschedulable = true, true
		x.add("admin cordons", c)
	}
}
