package nodeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// readDevice reads the settings of a device from the text of a method or a template. others are keys
// with another meaning.
func (s *subject) readDevice(d *definition, device *nodeplan.Device, entries []entry, others ...string) {
	here := map[string]entry{}
	for _, e := range entries {
		switch {
		case e.key == "device":
			name, rule := s.node.expand(e.value)
			switch {
			case rule != "":
				s.problem(e.at, rule, e.value)
			case strings.TrimSpace(name) == "":
				s.badValue(e, "must be a name")
			}
			device.Queue = "device " + name
		case slices.Contains([]string{"settle", "command_timeout", "off_is_proof"}, e.key):
			if s.noPlaceholder(e) {
				s.readTrait(d, device, e)
			}
		case slices.Contains(others, e.key):
			s.noPlaceholder(e)
		default:
			name, ok := s.readParameter(d.agent, e)
			first, duplicate := here[name]
			switch {
			case ok && duplicate:
				s.problem(e.at, once("parameter "+name, first.at.line), e.name)
			case ok:
				here[name] = e
			}
		}
	}
	maps.Copy(d.values, here)
}

func (s *subject) readTrait(d *definition, device *nodeplan.Device, e entry) {
	switch e.key {
	case "settle":
		device.Settle = s.duration(e, 0)
		if least := d.agent.MinSettle; device.Settle < least {
			s.problem(e.at, fmt.Sprintf("settle must be at least %v for %s, until a command has landed for certain",
				least, d.agent.Name), e.value)
		}
	case "command_timeout":
		if device.Timeout = s.duration(e, time.Second); device.Timeout%time.Second != 0 {
			s.badValue(e, "must be whole seconds")
		}
	case "off_is_proof":
		device.OffIsProof = s.choice(e, "yes", "no") == "yes"
	}
}

// readParameter returns the present name of a parameter, or false after an error.
func (s *subject) readParameter(agent *knownAgent, e entry) (name string, ok bool) {
	base, isSecret := strings.CutSuffix(e.key, secretSuffix)
	name, known := agent.current[base]
	why := cmp.Or(notToBeSet[base], notToBeSet[normal(name)])
	switch {
	case why != "":
		s.problem(e.at, "parameter must not be set: "+why, e.name)
	case !known:
		s.problem(e.at, nearest("agent "+agent.Name+" has no such parameter", base,
			slices.Collect(maps.Keys(agent.current))), e.name)
	case agent.ambiguous[base]:
		s.problem(e.at, "agent "+agent.Name+" has several parameters of that name", e.name)
	case isSecret:
		s.checkSecret(name, e, agent)
		return name, true
	case e.value == "" && !e.quoted:
		s.problem(e.at, `parameter must have a value, or "" if an empty one is meant`, e.name)
	default:
		return name, true
	}
	return "", false
}

// secret returns the place of the value, if it is in a Secret.
func (e entry) secret() (nodeplan.SecretRef, bool) {
	name, key, _ := strings.Cut(e.value, "/")
	return nodeplan.SecretRef{Name: name, Key: key}, strings.HasSuffix(e.key, secretSuffix)
}

func (s *subject) checkSecret(parameter string, e entry, agent *knownAgent) {
	if !s.noPlaceholder(e) {
		return
	}
	ref, _ := e.secret()
	keys, err := s.from.SecretKeys(ref.Name)
	switch {
	case ref.Name == "" || ref.Key == "" || strings.Contains(ref.Key, "/") || strings.ContainsAny(e.value, " \t"):
		s.problem(e.at, "secret must be NAME/KEY", e.value)
	case parameter == "method" || agent.identifies(parameter) ||
		slices.Contains(typed, agent.parameters[parameter].Type):
		s.problem(e.at, "parameter "+parameter+" must not be in a Secret: what is switched must be visible and checked",
			e.value)
	case errors.Is(err, fs.ErrNotExist):
		s.problem(e.at, "secret must exist in the namespace", e.value)
	case err != nil:
		s.problems = append(s.problems, e.at.problem(ErrUnread, "secret must be readable: "+oneLine(err), e.value))
	case !slices.Contains(keys, ref.Key):
		s.problem(e.at, "secret must have the key", e.value)
	}
}

// expand replaces the placeholders in a plain value and checks it. It returns false after an error.
func (s *subject) expand(name string, v entry, agent *knownAgent) (string, bool) {
	text, rule := s.node.expand(v.value)
	if rule != "" {
		s.problem(v.at, rule, printable(name, v.value))
		return "", false
	}
	if flaw := flaw(agent.parameters[name], text); flaw != "" {
		s.problem(v.at, name+" "+flaw, printable(name, text))
	}
	if name == "method" && strings.EqualFold(text, "cycle") {
		s.problem(v.at, "method must not be cycle: devices were seen to ignore it and report success", text)
	}
	switch {
	case !password(name):
	case s.from.StrictSecrets:
		s.problem(v.at, "password must be in a Secret: "+name+secretSuffix+"=NAME/KEY", "")
	default:
		s.warning(v.at, "password should be in a Secret: "+name+secretSuffix+"=NAME/KEY", "")
	}
	return text, true
}

// checkRequired checks required parameters, except the address, which identify checks. It returns
// false if the plug is missing.
func (s *subject) checkRequired(d *definition) (hasPlug bool) {
	hasPlug = true
	for _, name := range slices.Sorted(maps.Keys(d.agent.parameters)) {
		p := d.agent.parameters[name]
		_, given := d.values[name]
		isPlug := name == d.agent.current["plug"]
		switch {
		case given || !p.Required || name == "action" || name == d.agent.current["ip"]:
		case p.Default != "" && !isPlug:
		case isPlug && d.agent.current["port_as_ip"] != "": // another form of the address
		default:
			s.problem(d.at, "parameter "+name+" is required by "+d.agent.Name, "")
			hasPlug = hasPlug && !isPlug
		}
	}
	return hasPlug
}
