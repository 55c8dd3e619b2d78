package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// definition is a method with a device.
type definition struct {
	at      place
	actions []Action
	// device is nil if it is undetermined. Its parameters may be wrong even if it is set.
	device      *Device
	mustSucceed bool
	used        bool
}

// define reads a method from the object.
func (s *subject) define(name string, at place, entries []Entry) {
	if other, defined := s.methods[name]; defined {
		s.problem(at, "method must be defined once, and is "+other.at.key+" already", at.key)
		return
	}
	if isBuiltIn(name) {
		s.problem(at, "method must not have the name of a built-in one", name)
		return
	}
	d := &definition{at: at, mustSucceed: true}
	s.methods[name] = d
	if e, given := byKey(entries)["action"]; given {
		d.actions = s.actions(at.of(e), e)
	} else {
		s.problem(at, "key action is required", "")
	}
	s.findDevice(d, entries)
}

// restart defines the built-in method whose agent is in the template for clouds.
func (s *subject) restart(at place) *definition {
	if d, defined := s.methods[RestartInstance]; defined {
		return d
	}
	d := &definition{at: at, actions: []Action{Off, On}, mustSucceed: true}
	s.methods[RestartInstance] = d
	if _, exists := s.ConfigMaps[cloudTemplate]; !exists {
		s.problemBecause(ErrNotConfigured, at,
			RestartInstance+" needs a ConfigMap "+cloudTemplate+" with the agent of the cloud", RestartInstance)
		return d
	}
	s.findDevice(d, []Entry{
		{Key: "template", Name: "template", Value: cloudTemplate, Line: at.line},
		{Key: "plug", Name: "plug", Value: instanceIDPlaceholder, Line: at.line},
	})
	return d
}

// of returns the place of an entry.
func (p place) of(e Entry) place {
	p.line = e.Line
	return p
}

func byKey(entries []Entry) map[string]Entry {
	m := map[string]Entry{}
	for _, e := range entries {
		m[e.Key] = e
	}
	return m
}

func (s *subject) actions(at place, e Entry) []Action {
	switch strings.ToLower(e.Value) {
	case "off":
		return []Action{Off}
	case "on":
		return []Action{On}
	case "reboot", "cycle":
		return []Action{Off, On}
	}
	s.problem(at, "action must be on, off, or reboot, which is off and on", e.Value)
	return nil
}

// noPlaceholder returns false if the value has one.
func (s *subject) noPlaceholder(at place, value string) bool {
	if strings.Contains(value, "{{") {
		s.problem(at, "placeholders are replaced in the values of parameters only", value)
		return false
	}
	return true
}

// findDevice determines the device of a method from the method and its template.
func (s *subject) findDevice(d *definition, entries []Entry) {
	template, agent := s.source(d, byKey(entries))
	if agent == nil {
		return
	}
	for _, a := range d.actions {
		if len(agent.Actions) > 0 &&
			(!slices.Contains(agent.Actions, string(a)) || !slices.Contains(agent.Actions, "status")) {
			s.problem(d.at, fmt.Sprintf("agent %s must know %s and status", agent.Name, a),
				strings.Join(agent.Actions, ", "))
		}
	}
	values := map[string]setting{}
	traits := traits{settle: max(defaultSettle, agent.minSettle()), offIsProof: agent.OffIsProof}
	if template != nil {
		s.readTemplate(*template, d, agent, values, &traits)
	}
	s.readParameters(d.at, entries, append([]string{"template", "agent", "action"}, traitKeys...), agent, values)
	s.readTraits(d.at, entries, agent, &traits)
	if d.device = s.assemble(d, agent, values); d.device != nil {
		d.device.Settle, d.device.Timeout = traits.settle, traits.timeout
		d.device.OffIsProof = traits.offIsProof
		if traits.device != "" {
			d.device.Queue = "device " + traits.device
		}
	}
}

// source returns the template of a method, if any, and its agent, which is nil after an error.
func (s *subject) source(d *definition, own map[string]Entry) (*template, *knownAgent) {
	templateEntry, byTemplate := own["template"]
	agentEntry, byAgent := own["agent"]
	switch {
	case byTemplate && byAgent:
		s.problem(d.at.of(agentEntry), "method must have template or agent, not both", agentEntry.Value)
		return nil, nil
	case byAgent:
		return nil, s.installed(d.at.of(agentEntry), agentEntry.Value)
	case !byTemplate:
		s.problem(d.at, "key template is required", "")
		return nil, nil
	}
	t := s.template(d.at.of(templateEntry), templateEntry.Value)
	if t == nil {
		return nil, nil
	}
	e, given := byKey(t.entries)["agent_name"]
	if !given {
		s.problem(t.at, "key agent_name is required", "")
		return nil, nil
	}
	return t, s.installed(t.at.of(e), e.Value)
}

// installed returns nil after an error.
func (s *subject) installed(at place, name string) *knownAgent {
	if !s.noPlaceholder(at, name) {
		return nil
	}
	agent, err := s.agent(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.problem(at, "agent is not installed", name)
	case err != nil:
		s.problemBecause(ErrUnread, at, "agent must say what parameters it has: "+oneLine(err), name)
	}
	return agent
}
