package nodeconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// Names of the steps in configurations.
const (
	isolation       = "isolation"
	powerManagement = "power_management"
	recovery        = "recovery"
)

// builtInMethods are done in the cluster, except RestartInstance.
var builtInMethods = []string{
	nodeplan.MarkUnschedulable, nodeplan.MarkSchedulable, nodeplan.Cordon, nodeplan.Uncordon,
	nodeplan.RestartInstance, nodeplan.CleanPods, nodeplan.OutOfService, nodeplan.DetachVolumes,
	nodeplan.DeleteNode,
}

// step is the value of a step or of one of its fallback levels, whose number is 2 or more.
type step struct {
	entry
	step   string
	number int
	level  nodeplan.Level // empty if the plan has no such level
}

// stepOf splits a key.
func stepOf(key string) (name string, number int, ok bool) {
	n, fallback := strings.CutPrefix(key, powerManagement+".")
	if fallback && len(n) == 1 && '2' <= n[0] && n[0] <= '9' {
		return powerManagement, int(n[0] - '0'), true
	}
	return key, 1, key == isolation || key == powerManagement || key == recovery
}

func (s *subject) readSteps(steps []step) {
	slices.SortStableFunc(steps, func(a, b step) int { return a.number - b.number })
	for i, st := range steps {
		level := s.readLevel(st)
		next := len(s.plan.PowerManagement) + 1
		switch empty := strings.Trim(st.value, " \t") == ""; {
		case st.step == recovery:
			s.plan.Recovery = level
		case st.number == 1 && empty:
		case st.step == isolation:
			s.plan.Isolation = level
			steps[i].level = level
		case empty:
			s.problem(st.at, "fallback level must have methods", "nothing")
		case st.number != next:
			s.problem(st.at, fmt.Sprintf("level must be %d: the one before it is missing", next), fmt.Sprint(st.number))
		default:
			s.plan.PowerManagement = append(s.plan.PowerManagement, level)
			steps[i].level = level
		}
	}
	s.checkIsolation(steps)
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		if d := s.methods[name]; !d.used {
			s.warning(d.at, "method is in no step", name)
		}
	}
}

func (s *subject) readLevel(st step) nodeplan.Level {
	if strings.Contains(st.value, ",") {
		s.problem(st.at, "methods must be separated by blanks", st.value)
		return nil
	}
	var methods nodeplan.Level
	seen, complete := map[string]bool{}, true
	for _, written := range strings.FieldsFunc(st.value, func(r rune) bool { return r == ' ' || r == '\t' }) {
		name := methodName(written)
		if seen[name] {
			s.problem(st.at, "method must be in a step once", written)
			continue
		}
		seen[name] = true
		if st.step == recovery && (name == nodeplan.CleanPods || name == nodeplan.DetachVolumes) {
			s.warning(st.at, "method is for a node that fails: a recovery does without it", written)
			continue
		}
		standsFor := s.plannedAs(st, name, written)
		complete = complete && len(standsFor) > 0
		methods = append(methods, standsFor...)
	}
	s.checkStep(st, methods)
	s.checkTwins(st, methods)
	if st.step == powerManagement && len(methods) > 0 {
		s.checkPower(st, methods, complete)
	}
	var level nodeplan.Level
	for _, implied := range []bool{false, true} {
		for _, m := range methods {
			if s.implied(m) == implied &&
				(m.Action != agent.ActionOn || st.step != powerManagement || s.plan.PowerOn != nodeplan.Never) {
				level = append(level, m)
			}
		}
	}
	return level
}

// implied reports whether a method is the on of a restart, which comes last.
func (s *subject) implied(m nodeplan.Method) bool {
	return m.Action == agent.ActionOn && len(s.methods[m.Name].actions) > 1
}

// plannedAs expands a method of a step. It returns nil if the method is unknown.
func (s *subject) plannedAs(st step, name, written string) (methods nodeplan.Level) {
	d := s.methods[name]
	switch {
	case name == nodeplan.RestartInstance:
		d = s.restart(st.at)
	case slices.Contains(builtInMethods, name):
		return nodeplan.Level{{Name: name, MustSucceed: true}}
	case d == nil:
		s.problem(st.at, nearest("method must be built in or defined as "+methodPrefix+name, name,
			slices.Concat(builtInMethods, slices.Collect(maps.Keys(s.methods)))), written)
		return nil
	}
	d.used = true
	if st.step == powerManagement && !d.mustSucceed {
		s.problem(st.at, "method must succeed in power management: its template has must_success=no", written)
	}
	for _, action := range d.actions {
		methods = append(methods, nodeplan.Method{
			Name: name, Action: action, Device: d.device, MustSucceed: d.mustSucceed, Storage: s.from.Storage[name],
		})
	}
	return methods
}

// checkStep finds methods in the wrong step.
func (s *subject) checkStep(st step, methods nodeplan.Level) {
	for i, m := range methods {
		switch {
		case st.step == isolation && m.Action == agent.ActionOn:
			s.problem(st.at, "isolation must not switch anything on", m.Name)
		case st.step == recovery && m.Action == agent.ActionOff:
			s.problem(st.at, "recovery must not switch anything off", m.Name)
		case st.step == recovery && m.Name == nodeplan.MarkUnschedulable:
			s.warning(st.at,
				"node stays unschedulable after it has recovered; did you mean "+nodeplan.MarkSchedulable+"?",
				m.Name)
		case m.Name != nodeplan.DeleteNode:
		case st.step != powerManagement || i < len(methods)-1:
			s.problem(st.at, "method must be the last of power_management", m.Name)
		case s.plan.PowerOn != nodeplan.Never:
			s.problem(st.at, "method needs power_on=never: the machine of a node that was deleted stays off", m.Name)
		}
	}
}

// checkTwins finds methods of a level that do the same to one plug. One of them was meant for
// another plug, such as the second feed of a machine, which would keep its power unnoticed.
func (s *subject) checkTwins(st step, methods nodeplan.Level) {
	seen := map[string]string{}
	for _, m := range methods {
		if m.Device == nil {
			continue
		}
		plug := string(m.Action) + " " + m.Device.Identity
		if other, twice := seen[plug]; twice {
			s.problem(st.at, "methods must be for different plugs, and "+other+" is for the same", m.Name)
		}
		seen[plug] = m.Name
	}
}

// plugs returns the names of methods by their plugs, and whether each method has one.
func plugs(methods []nodeplan.Method) (names map[string]string, complete bool) {
	names, complete = map[string]string{}, true
	for _, m := range methods {
		if m.Device != nil {
			names[m.Device.Key] = m.Name
		}
		complete = complete && m.Device != nil
	}
	return names, complete
}

// checkPower checks that a level switches off everything that it switches on, in this order. If the
// methods are incomplete, which is an error already, a missing one is not reported.
func (s *subject) checkPower(st step, methods nodeplan.Level, complete bool) {
	firstOn := ""
	for _, m := range methods {
		switch {
		case m.Action == agent.ActionOff && firstOn != "":
			s.problem(st.at, "every off must come before every on, and "+firstOn+" comes before", m.Name)
		case m.Action == agent.ActionOn && !s.implied(m):
			firstOn = cmp.Or(firstOn, m.Name)
		}
	}
	off, allOff := plugs(methods.Off())
	on, allOn := plugs(methods.On())
	switch {
	case !complete || !allOff || !allOn:
		return
	case len(off) == 0:
		s.problem(st.at, "power management must switch something off, or be empty", strings.TrimSpace(st.value))
		return
	}
	for _, plug := range slices.Sorted(maps.Keys(off)) {
		if on[plug] == "" && s.plan.PowerOn != nodeplan.Never {
			s.problem(st.at, "what is switched off must be switched on in the same level, but for power_on=never",
				off[plug])
		}
	}
	for _, plug := range slices.Sorted(maps.Keys(on)) {
		if off[plug] == "" {
			s.problem(st.at, "what is switched on must be switched off in the same level", on[plug])
		}
	}
}

// checkIsolation finds devices of the isolation step that recovery does not switch on again, or
// that power management could not switch off.
func (s *subject) checkIsolation(steps []step) {
	on, complete := plugs(s.plan.Recovery.On())
	isolated := map[string]bool{}
	for _, st := range steps {
		for _, m := range st.level.Off() {
			if st.step != isolation || m.Device == nil {
				continue
			}
			isolated[m.Device.Identity] = true
			if complete && on[m.Device.Key] == "" && s.plan.PowerOn != nodeplan.Never {
				s.problem(st.at, "what isolation switches off must be switched on by recovery, but for power_on=never",
					m.Name)
			}
		}
	}
	for _, st := range steps {
		for _, m := range st.level.Off() {
			if st.step == powerManagement && m.Device != nil && isolated[m.Device.Identity] {
				s.problem(st.at, "plug must not be that of isolation: what was switched off is not switched off again",
					m.Name)
			}
		}
	}
}
