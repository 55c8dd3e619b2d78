package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// definition is a method with a device.
type definition struct {
	at          place
	actions     []agent.Action
	mustSucceed bool
	used        bool
	agent       *knownAgent
	values      map[string]entry // by the present names of the agent's parameters
	// device is nil if it is undetermined. Its parameters may be wrong even if it is set.
	device *nodeplan.Device
}

// readMethod reads a method of the object.
func (s *subject) readMethod(name string, at place, entries []entry) {
	other, defined := s.methods[name]
	switch {
	case defined:
		s.problem(at, "method must be defined once, and is "+other.at.key+" already", at.key)
	case slices.Contains(builtInMethods, name):
		s.problem(at, "method must not have the name of a built-in one", name)
	default:
		s.methods[name] = s.define(at, entries)
	}
}

// restart defines the built-in method whose agent is in the template for clouds.
func (s *subject) restart(at place) *definition {
	if d, defined := s.methods[nodeplan.RestartInstance]; defined {
		return d
	}
	d := &definition{at: at, actions: []agent.Action{agent.ActionOff, agent.ActionOn}, mustSucceed: true}
	if s.from.has(cloudTemplate) {
		d = s.define(at, []entry{
			{at: at, key: "action", value: "reboot"},
			{at: at, key: "template", value: cloudTemplate},
			{at: at, key: "plug", name: "plug", value: instanceIDPlaceholder},
		})
	} else {
		var cause error
		if s.object == nodeplan.BuiltIn {
			cause = ErrNotConfigured
		}
		s.problems = append(s.problems, at.problem(cause,
			nodeplan.RestartInstance+" needs a ConfigMap "+cloudTemplate+" with the agent of the cloud",
			nodeplan.RestartInstance))
	}
	s.methods[nodeplan.RestartInstance] = d
	return d
}

func byKey(entries []entry) map[string]entry {
	m := map[string]entry{}
	for _, e := range entries {
		m[e.key] = e
	}
	return m
}

var actions = map[string][]agent.Action{
	"off": {agent.ActionOff}, "on": {agent.ActionOn},
	"reboot": {agent.ActionOff, agent.ActionOn}, "cycle": {agent.ActionOff, agent.ActionOn},
}

// define makes a method of its text, with the device that the text and its template determine.
func (s *subject) define(at place, entries []entry) *definition {
	d := &definition{at: at, mustSucceed: true, values: map[string]entry{}}
	own := byKey(entries)
	e, given := own["action"]
	d.actions = actions[strings.ToLower(e.value)]
	switch {
	case !given:
		s.problem(at, "key action is required", "")
	case d.actions == nil:
		s.problem(e.at, "action must be on, off, or reboot, which is off and on", e.value)
	}
	var common []entry
	if common, d.agent = s.source(at, own); d.agent == nil {
		return d
	}
	for _, a := range d.actions {
		if known := d.agent.Actions; len(known) > 0 &&
			(!slices.Contains(known, string(a)) || !slices.Contains(known, "status")) {
			s.problem(at, fmt.Sprintf("agent %s must know %s and status", d.agent.Name, a), strings.Join(known, ", "))
		}
	}
	device := &nodeplan.Device{
		Agent: d.agent.Name, Settle: max(defaultSettle, d.agent.MinSettle), Timeout: s.from.CommandTimeout,
		Poll: defaultPoll, OffIsProof: d.agent.OffIsProof,
	}
	s.readDevice(d, device, s.readTemplate(d, common), "agent_name", "name")
	s.readDevice(d, device, entries, "template", "agent", "action")
	if s.assemble(d, device) {
		d.device = device
	}
	return d
}

// noPlaceholder returns false if the value has one.
func (s *subject) noPlaceholder(e entry) bool {
	if strings.Contains(e.value, "{{") {
		s.problem(e.at, "placeholders are replaced in the values of parameters only", e.value)
		return false
	}
	return true
}

// source returns the settings that a method takes from its template, and its agent, or nil after an
// error.
func (s *subject) source(at place, own map[string]entry) (common []entry, agent *knownAgent) {
	template, byTemplate := own["template"]
	e, byAgent := own["agent"]
	switch {
	case byTemplate && byAgent:
		s.problem(e.at, "method must have template or agent, not both", e.value)
		return nil, nil
	case byTemplate:
		common, e, byAgent = s.template(template)
	case !byAgent:
		s.problem(at, "key template is required", "")
	}
	if !byAgent || !s.noPlaceholder(e) {
		return nil, nil
	}
	agent = s.from.agent(e.value)
	switch {
	case agent.err == nil:
		return common, agent
	case errors.Is(agent.err, fs.ErrNotExist):
		s.problem(e.at, "agent is not installed", e.value)
	default:
		s.problems = append(s.problems,
			e.at.problem(ErrUnread, "agent must say what parameters it has: "+oneLine(agent.err), e.value))
	}
	return nil, nil
}

// template returns the settings of a template, which are common to the methods for one device, and
// its agent among them, or false after an error.
func (s *subject) template(e entry) (settings []entry, agent entry, ok bool) {
	name := e.value
	if !s.noPlaceholder(e) {
		return nil, entry{}, false
	}
	if !s.from.has(name) || !strings.HasPrefix(name, templatePrefix) {
		known := slices.DeleteFunc(slices.Collect(maps.Keys(s.from.ConfigMaps)),
			func(object string) bool { return !strings.HasPrefix(object, templatePrefix) })
		rule := "template must be a ConfigMap " + templatePrefix + "<device> of the namespace"
		s.problem(e.at, nearest(rule, name, known), name)
		return nil, entry{}, false
	}
	for _, key := range slices.Sorted(maps.Keys(s.from.ConfigMaps[name])) {
		if key != templateKey {
			s.problem(place{object: name, key: key}, "data key must be "+templateKey, key)
		}
	}
	settings, exists := s.required(name, templateKey)
	if agent, ok = byKey(settings)["agent_name"]; exists && !ok {
		s.problem(place{object: name, key: templateKey}, "key agent_name is required", "")
	}
	return settings, agent, ok
}

// readTemplate reads what a template determines besides the device, and returns the other settings.
func (s *subject) readTemplate(d *definition, entries []entry) (others []entry) {
	spelt := false
	for _, e := range entries {
		current := d.agent.current[e.key]
		switch {
		case e.key == "must_success" || e.key == "must_sucess":
			if spelt {
				s.problem(e.at, "key must be given once, by one of its spellings", e.name)
			}
			spelt = true
			d.mustSucceed = s.choice(e, "yes", "no") != "no"
		case slices.Contains([]string{"action", "template", "agent", "plug"}, e.key),
			current != "" && current == d.agent.current["plug"]:
			s.problem(e.at, "key belongs into methods, not into templates", e.name)
		default:
			others = append(others, e)
		}
	}
	return others
}
