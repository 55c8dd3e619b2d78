package nodeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Settle times.
const (
	defaultSettle   = 30 * time.Second
	fallbackSettle  = 10 * time.Second // at least, for an agent whose metadata does not set it
	secretSuffix    = ".secret"
	methodParameter = "method"
)

// Names of one parameter in older and newer agents that do not mention each other.
var renamed = [][2]string{
	{"plug", "port"},
	{"ip", "ipaddr"},
	{"username", "login"},
	{"password", "passwd"},
	{"ipport", "udpport"},
}

// Parameters that must not be set, with the reason.
var notToBeSet = map[string]string{
	"action":         "the method says that",
	"option":         "the method says that",
	"help":           "the agent would do nothing else",
	"version":        "the agent would do nothing else",
	"missing_as_off": "a plug that does not exist would read off",
}

// Parameters that, besides address, port and plug, determine what is switched.
var withinDevice = []string{"switch", "managed", "target", "suborg", "systems_uri"}

// knownAgent is metadata prepared for lookups. Its names are in normal form.
type knownAgent struct {
	agent.Metadata
	current    map[string]string // from any name to the present one
	parameters map[string]agent.ParameterSpec
	ambiguous  map[string]bool
}

func index(a agent.Metadata) *knownAgent {
	k := &knownAgent{
		Metadata:   a,
		current:    map[string]string{},
		parameters: map[string]agent.ParameterSpec{},
		ambiguous:  map[string]bool{},
	}
	newer := map[string]string{}
	for _, p := range a.Parameters {
		for _, old := range p.Obsoletes {
			newer[old] = p.Name
		}
	}
	for _, p := range a.Parameters {
		today := p.Name
		for range newer { // bounded, because names may obsolete each other
			if next, ok := newer[today]; ok {
				today = next
			}
		}
		if today == p.Name {
			k.parameters[p.Name] = p
		}
		for _, name := range append([]string{p.Name}, p.Obsoletes...) {
			if other, known := k.current[normal(name)]; known && other != today {
				k.ambiguous[normal(name)] = true
			}
			k.current[normal(name)] = today
		}
	}
	for _, pair := range renamed {
		for i, name := range pair {
			if other, known := k.current[pair[1-i]]; known && k.current[name] == "" {
				k.current[name] = other
			}
		}
	}
	return k
}

// minSettle returns the shortest permitted settle time.
func (k *knownAgent) minSettle() time.Duration {
	if k.MinSettle > 0 {
		return k.MinSettle
	}
	return fallbackSettle
}

// identifies reports whether a parameter, by its present name, determines what is switched.
func (k *knownAgent) identifies(parameter string) bool {
	for _, name := range append([]string{"ip", "ipport", "plug", "port_as_ip"}, withinDevice...) {
		if k.current[name] == parameter {
			return true
		}
	}
	return false
}

// names returns all names of all parameters.
func (k *knownAgent) names() []string {
	return slices.Sorted(maps.Keys(k.current))
}

// flaw returns why a value is not of the parameter's type, or "" if it is.
func flaw(p agent.ParameterSpec, value string) string {
	switch p.Type {
	case agent.TypeBoolean:
		if !slices.Contains([]string{"1", "yes", "on", "true", "0", "no", "off", "false"}, strings.ToLower(value)) {
			return "must be 1, yes, on, true, 0, no, off or false"
		}
	case agent.TypeInteger:
		if n, err := strconv.ParseInt(value, 10, 32); err != nil || strconv.FormatInt(n, 10) != value {
			return "must be a whole number"
		}
	case agent.TypeSecond:
		if n, err := strconv.ParseInt(value, 10, 32); err != nil || strconv.FormatInt(n, 10) != value || n < 0 {
			return "must be a whole number of seconds"
		}
	case agent.TypeSelect:
		if len(p.Options) > 0 && !slices.Contains(p.Options, value) {
			return fmt.Sprintf("must be one of %s", strings.Join(p.Options, ", "))
		}
	}
	return ""
}

// checked reports whether the type restricts the values.
func checked(p agent.ParameterSpec) bool {
	return p.Type == agent.TypeBoolean || p.Type == agent.TypeInteger || p.Type == agent.TypeSecond ||
		p.Type == agent.TypeSelect
}

// truth returns the value of a Boolean.
func truth(value string) bool {
	return slices.Contains([]string{"1", "yes", "on", "true"}, strings.ToLower(value))
}

// password reports whether a parameter, or a key that may be meant as one, belongs in a Secret.
// Names of files and programs do not.
func password(name string) bool {
	name = normal(name)
	for _, harmless := range []string{secretSuffix, "_script", "_file", "_path"} {
		if strings.HasSuffix(name, harmless) {
			return false
		}
	}
	for _, part := range []string{
		"pass", "pwd", "secret", "token", "apikey", "api_key", "community",
		"hexadecimal_kg",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// printable returns a value in a form that may be shown.
func printable(key, value string) string {
	if password(key) {
		return ""
	}
	return value
}
