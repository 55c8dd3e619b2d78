package nodeconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Settle times.
const (
	defaultSettle  = 30 * time.Second
	defaultPoll    = 5 * time.Second
	fallbackSettle = 10 * time.Second // at least, for an agent whose metadata does not set it
)

// Names of one parameter in older and newer agents that do not mention each other.
var renamed = [][2]string{
	{"plug", "port"},
	{"ip", "ipaddr"},
	{"username", "login"},
	{"password", "passwd"},
	{"ipport", "udpport"},
}

// secretSuffix is the end of a key whose value is in a Secret.
const secretSuffix = ".secret"

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
	err        error             // why there is no metadata
	current    map[string]string // from any name to the present one
	parameters map[string]agent.ParameterSpec
	ambiguous  map[string]bool
}

func index(a agent.Metadata) *knownAgent {
	if a.MinSettle <= 0 {
		a.MinSettle = fallbackSettle
	}
	k := &knownAgent{
		Metadata: a, current: map[string]string{}, parameters: map[string]agent.ParameterSpec{},
		ambiguous: map[string]bool{},
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
			today = cmp.Or(newer[today], today)
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

// identifies reports whether a parameter, by its present name, determines what is switched.
func (k *knownAgent) identifies(parameter string) bool {
	return slices.ContainsFunc(append([]string{"ip", "ipport", "plug", "port_as_ip"}, withinDevice...),
		func(name string) bool { return k.current[name] == parameter })
}

// Values of a Boolean.
var truths, untruths = []string{"1", "yes", "on", "true"}, []string{"0", "no", "off", "false"}

// flaw returns why a value is not of the parameter's type, or "" if it is.
func flaw(p agent.ParameterSpec, value string) string {
	n, err := strconv.ParseInt(value, 10, 32)
	whole := err == nil && strconv.FormatInt(n, 10) == value
	switch {
	case p.Type == agent.TypeBoolean && !slices.Contains(slices.Concat(truths, untruths), strings.ToLower(value)):
		return "must be 1, yes, on, true, 0, no, off or false"
	case p.Type == agent.TypeInteger && !whole:
		return "must be a whole number"
	case p.Type == agent.TypeSecond && (!whole || n < 0):
		return "must be a whole number of seconds"
	case p.Type == agent.TypeSelect && len(p.Options) > 0 && !slices.Contains(p.Options, value):
		return fmt.Sprintf("must be one of %s", strings.Join(p.Options, ", "))
	}
	return ""
}

// typed are the types that restrict the values.
var typed = []agent.ParameterType{agent.TypeBoolean, agent.TypeInteger, agent.TypeSecond, agent.TypeSelect}

var (
	passwords = []string{"pass", "pwd", "secret", "token", "apikey", "api_key", "community", "hexadecimal_kg"}
	harmless  = []string{secretSuffix, "_script", "_file", "_path"}
)

// password reports whether a parameter, or a key that may be meant as one, belongs in a Secret.
// Names of files and programs do not.
func password(name string) bool {
	name = normal(name)
	return !slices.ContainsFunc(harmless, func(end string) bool { return strings.HasSuffix(name, end) }) &&
		slices.ContainsFunc(passwords, func(part string) bool { return strings.Contains(name, part) })
}

// printable returns a value in a form that may be shown.
func printable(key, value string) string {
	if password(key) {
		return ""
	}
	return value
}
