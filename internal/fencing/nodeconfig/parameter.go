package nodeconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"
)

// setting is a parameter of a device. If the value is in a Secret, that of the entry is its place.
type setting struct {
	entry
	secret *SecretRef
}

// readDevice reads the settings of a device from the text of a method or a template. others are keys
// with another meaning.
func (s *subject) readDevice(d *definition, device *Device, entries []entry, others ...string) {
	here := map[string]setting{}
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
			name, v, ok := s.readParameter(d.agent, e)
			first, duplicate := here[name]
			switch {
			case ok && duplicate:
				s.problem(e.at, once("parameter "+name, first.at.line), e.name)
			case ok:
				here[name] = v
			}
		}
	}
	maps.Copy(d.values, here)
}

func (s *subject) readTrait(d *definition, device *Device, e entry) {
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

// readParameter returns a parameter by its present name, or false after an error.
func (s *subject) readParameter(agent *knownAgent, e entry) (name string, v setting, ok bool) {
	v = setting{entry: e}
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
		v.secret = s.secretRef(name, e, agent)
		return name, v, true
	case e.value == "" && !e.quoted:
		s.problem(e.at, `parameter must have a value, or "" if an empty one is meant`, e.name)
	default:
		return name, v, true
	}
	return "", setting{}, false
}

// secretRef never returns nil, because the value is not meant as a plain one.
func (s *subject) secretRef(parameter string, e entry, agent *knownAgent) *SecretRef {
	name, key, _ := strings.Cut(e.value, "/")
	ref := &SecretRef{name, key}
	if !s.noPlaceholder(e) {
		return ref
	}
	keys, err := []string(nil), error(fs.ErrNotExist)
	if s.from.SecretKeys != nil {
		keys, err = s.from.SecretKeys(name)
	}
	switch {
	case name == "" || key == "" || strings.ContainsAny(key, "/ \t") || strings.ContainsAny(name, " \t"):
		s.problem(e.at, "secret must be NAME/KEY", e.value)
	case parameter == methodParameter || agent.identifies(parameter) ||
		slices.Contains(typed, agent.parameters[parameter].Type):
		s.problem(e.at, "parameter "+parameter+" must not be in a Secret: what is switched must be visible and checked",
			e.value)
	case errors.Is(err, fs.ErrNotExist):
		s.problem(e.at, "secret must exist in the namespace", e.value)
	case err != nil:
		s.problemBecause(ErrUnread, e.at, "secret must be readable: "+oneLine(err), e.value)
	case !slices.Contains(keys, key):
		s.problem(e.at, "secret must have the key", e.value)
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

// Value is the value of a parameter: a text, or its place in a Secret. A text that is a password is
// not printed, logged or encoded, however deeply it is nested.
type Value struct {
	// text is behind a pointer because fmt cannot call methods of values in an unexported field,
	// but does not follow pointers there.
	text   *string
	hidden bool
	secret SecretRef
}

// SecretRef is a key of a Secret in the namespace of the configuration.
type SecretRef struct {
	Name, Key string
}

// String returns name/key.
func (s SecretRef) String() string { return s.Name + "/" + s.Key }

// Text returns the value, unless it is in a Secret.
func (v Value) Text() (string, bool) {
	if v.text == nil {
		return "", false
	}
	return *v.text, true
}

// Secret returns where the value is, if it is in a Secret.
func (v Value) Secret() (SecretRef, bool) { return v.secret, v.text == nil }

// String returns the text, "secret name/key", or "hidden".
func (v Value) String() string {
	switch {
	case v.text == nil:
		return "secret " + v.secret.String()
	case v.hidden:
		return "hidden"
	default:
		return *v.text
	}
}

// GoString returns [Value.String].
func (v Value) GoString() string { return v.String() }

// Format prints [Value.String], whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// MarshalJSON encodes a text as a string, and another value as an object that describes it.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.text == nil:
		return json.Marshal(struct{ Secret SecretRef }{v.secret})
	case v.hidden:
		return json.Marshal(struct{ Hidden bool }{true})
	default:
		return json.Marshal(*v.text)
	}
}
