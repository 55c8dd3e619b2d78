package statemachine

import "github.com/bellwether-k8s/bellwether/fencing/v1alpha1"

// switchOff takes the power from a plug, and says which rule that breaks.
func (x *explorer) switchOff(s *State, i int) (bad string) {
	p := &s.Plugs[i]
	if !p.On {
		return ""
	}
	p.On = false
	p.Effects = min(3, p.Effects+1)
	switch {
	case p.Effects > 1 && !p.ExtOn:
		bad = "power of a device taken twice in an incident"
	case s.Acked:
		bad = "power taken after the stop was acknowledged"
	case s.Phase == phFinal || s.Phase == phGivenUp:
		bad = "power taken after the end of the fence"
	case s.Calling != uint8(1+i) && s.Released > 0 && (s.Phase == phBooting || s.Phase == phRecovering):
		bad = "power taken from the restored machine by a late command"
	}
	if !x.c.powered(s) {
		s.Fresh, s.Kernel = false, kernelRuns
	}
	return bad
}

// end judges the end of a fence.
func (x *explorer) end(n *State, status *v1alpha1.Status) (bad string) {
	n.Acked = n.Acked || stopped(status.Abort)
	for i := range x.c.plugs() {
		p := &n.Plugs[i]
		switch {
		case !p.On && p.Effects > 0 && (!says(status, names[i]) || x.d.GiveUpSilently):
			return "the end: a plug is off because of us, and the record does not say so"
		case p.Pending == pendOff:
			return "the end: a command to switch off is still under way"
		}
	}
	switch {
	case n.OutOfService:
		return "the end: our out-of-service taint is on the node"
	case n.AdminCordons && !n.Unschedulable:
		return "the end: the admin's cordon is gone"
	case n.Phase == phFinal && !x.c.powered(n):
		return "the end: the node works, says the record, and the machine is without power"
	}
	return ""
}

// released judges what takes the workloads from the node.
func (x *explorer) released(s *State) string {
	switch {
	case s.Manual: // the admin is believed
		return ""
	case x.c.powered(s) && !s.Plugs[0].ExtNow && !s.Plugs[1].ExtNow:
		return "workloads released while the machine has power"
	case !s.Verified:
		return "workloads released without a proof"
	}
	return ""
}

// freed judges what takes the pods from a node whose kernel writes a dump.
func (x *explorer) freed(s *State) string {
	switch {
	case x.c.powered(s) && s.Kernel == kernelRuns:
		return "pods released while the machine runs"
	case s.Look == ndReady || s.Look == ndNone && s.Node == ndReady:
		return "pods released from a node that is Ready"
	case s.DumpReleased == 0:
		return "pods released before the record says why"
	}
	return ""
}

// cutsOff judges the first command that takes the machine's power.
func (x *explorer) cutsOff(s *State, reason Reason) string {
	first := !s.Plugs[0].Touched && !s.Plugs[1].Touched
	if reason == OffIntent && first && s.Kernel == kernelDumps && s.Heard != heardNone && !s.Early {
		return "a dump is cut off that goes on"
	}
	return ""
}
