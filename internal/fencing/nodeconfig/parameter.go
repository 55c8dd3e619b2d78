package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// setting is the value of a parameter, with its place.
type setting struct {
	at     place
	value  string
	secret *SecretRef
}

// Keys for traits of a device in methods and templates.
const (
	settleKey  = "settle"
	timeoutKey = "command_timeout"
	proofKey   = "off_is_proof"
	deviceKey  = "device"
)

var traitKeys = []string{settleKey, timeoutKey, proofKey, deviceKey}

// traits of a device.
type traits struct {
	settle, timeout time.Duration
	offIsProof      bool
	device          string // its name, where agent and address do not identify it
}

// readTraits sets the traits that the text has.
func (s *subject) readTraits(at place, entries []Entry, agent *knownAgent, t *traits) {
	given := byKey(entries)
	if e, has := given[proofKey]; has {
		t.offIsProof = s.choice(at.of(e), e, "yes", "no") == "yes"
	}
	if e, has := given[deviceKey]; has {
		text, rule := s.node.expand(e.Value)
		switch t.device = text; {
		case rule != "":
			s.problem(at.of(e), rule, e.Value)
		case strings.TrimSpace(text) == "":
			s.badValue(at.of(e), e, "must be a name")
		}
	}
	if e, has := given[timeoutKey]; has {
		if t.timeout = s.duration(at.of(e), e, time.Second); t.timeout%time.Second != 0 {
			s.badValue(at.of(e), e, "must be whole seconds")
		}
	}
	e, has := given[settleKey]
	if !has {
		return
	}
	t.settle = s.duration(at.of(e), e, 0)
	if least := agent.minSettle(); t.settle < least {
		s.problem(at.of(e),
			fmt.Sprintf("settle must be at least %v for %s, until a command has landed for certain", least, agent.Name),
			e.Value)
	}
}

// readParameters adds the parameters of a text to values, by their present names. others are keys
// that are not parameters.
func (s *subject) readParameters(
	at place,
	entries []Entry,
	others []string,
	agent *knownAgent,
	values map[string]setting,
) {
	here := map[string]setting{}
	for _, e := range entries {
		at := at.of(e)
		if slices.Contains(others, e.Key) {
			if e.Key != deviceKey {
				s.noPlaceholder(at, e.Value)
			}
			continue
		}
		base, isSecret := strings.CutSuffix(e.Key, secretSuffix)
		name, known := agent.current[base]
		why, refused := notToBeSet[base]
		if !refused {
			why, refused = notToBeSet[normal(name)]
		}
		switch {
		case refused:
			s.problem(at, "parameter must not be set: "+why, e.Name)
			continue
		case !known:
			s.problem(at, nearest("agent "+agent.Name+" has no such parameter", base, agent.names()),
				e.Name)
			continue
		case agent.ambiguous[base]:
			s.problem(at, "agent "+agent.Name+" has several parameters of that name", e.Name)
			continue
		}
		v := setting{at: at, value: e.Value}
		switch {
		case isSecret:
			v.secret = s.secretRef(at, name, e, agent)
		case e.Value == "" && !e.Quoted:
			s.problem(at, `parameter must have a value, or "" if an empty one is meant`, e.Name)
			continue
		}
		if first, duplicate := here[name]; duplicate {
			s.problem(at,
				fmt.Sprintf("parameter %s must be given once, and is in line %d already", name, first.at.line), e.Name)
			continue
		}
		here[name] = v
	}
	maps.Copy(values, here)
}

// secretRef never returns nil, because the value is not meant as a plain one.
func (s *subject) secretRef(at place, parameter string, e Entry, agent *knownAgent) *SecretRef {
	name, key, _ := strings.Cut(e.Value, "/")
	ref := &SecretRef{name, key}
	if !s.noPlaceholder(at, e.Value) {
		return ref
	}
	inIt, err := s.hasSecret(*ref)
	switch {
	case name == "" || key == "" || strings.ContainsAny(key, "/ \t") || strings.ContainsAny(name, " \t"):
		s.problem(at, "secret must be NAME/KEY", e.Value)
	case parameter == methodParameter || agent.identifies(parameter) || checked(agent.parameters[parameter]):
		s.problem(at, "parameter "+parameter+" must not be in a Secret: what is switched must be visible and checked",
			e.Value)
	case errors.Is(err, fs.ErrNotExist):
		s.problem(at, "secret must exist in the namespace", e.Value)
	case err != nil:
		s.problemBecause(ErrUnread, at, "secret must be readable: "+oneLine(err), e.Value)
	case !inIt:
		s.problem(at, "secret must have the key", e.Value)
	}
	return ref
}

// expand replaces the placeholders in a plain value and checks it. It returns false after an error.
func (s *subject) expand(name string, v setting, agent *knownAgent) (string, bool) {
	text, rule := s.node.expand(v.value)
	if rule != "" {
		s.problem(v.at, rule, printable(name, v.value))
		return "", false
	}
	if flaw := flaw(agent.parameters[name], text); flaw != "" {
		s.problem(v.at, name+" "+flaw, printable(name, text))
	}
	if name == methodParameter && strings.EqualFold(text, "cycle") {
		s.problem(v.at, "method must not be cycle: devices were seen to ignore it and report success", text)
	}
	switch {
	case !password(name):
	case s.StrictSecrets:
		s.problem(v.at, "password must be in a Secret: "+name+secretSuffix+"=NAME/KEY", "")
	default:
		s.warning(v.at, "password should be in a Secret: "+name+secretSuffix+"=NAME/KEY", "")
	}
	return text, true
}

// checkRequired checks required parameters, except the address, which identify checks. It returns
// false if the plug is missing.
func (s *subject) checkRequired(d *definition, agent *knownAgent, values map[string]setting) (hasPlug bool) {
	hasPlug = true
	for _, name := range slices.Sorted(maps.Keys(agent.parameters)) {
		p := agent.parameters[name]
		_, given := values[name]
		isPlug := name == agent.current["plug"]
		switch {
		case given || !p.Required || name == "action" || name == agent.current["ip"]:
		case p.Default != "" && !isPlug:
		case isPlug && agent.current["port_as_ip"] != "": // another form of the address
		default:
			s.problem(d.at, "parameter "+name+" is required by "+agent.Name, "")
			hasPlug = hasPlug && !isPlug
		}
	}
	return hasPlug
}
