package fenceagents

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Parameters that are refused, by their normal names, with the reasons.
var refused = map[string]string{
	"action":         "is not a parameter: it is sent with every call",
	"help":           "makes the agent print a text instead",
	"usage":          "makes the agent print a text instead",
	"version":        "makes the agent print a text instead",
	"debug":          "has passwords written to a file",
	"debug_file":     "has passwords written to a file",
	"logfile":        "has passwords written to a file",
	"verbose":        "has passwords written to the log",
	"verbose_level":  "has passwords written to the log",
	"boto3_debug":    "has passwords written to the log",
	"delay":          "has the command sent when it may be wrong by then",
	"missing_as_off": "makes a plug that does not exist read as off",
	"ssh_options":    runsPrograms,
	"exec":           runsPrograms,
	"openrc":         runsPrograms,
	"runonfail":      runsPrograms,
	"runonwarn":      runsPrograms,
}

const runsPrograms = "has programs executed"

// Names that end like those of programs, but name none.
var paths = []string{"api_path", "store_path"}

// refusal returns the reason why a parameter is refused, or "".
func refusal(name string) string {
	name = normal(name)
	if why := refused[name]; why != "" {
		return why
	}
	if strings.HasSuffix(name, "_script") || strings.HasSuffix(name, "_path") && !slices.Contains(paths, name) {
		return runsPrograms
	}
	return ""
}

// normal returns the form in which names of parameters are compared, because agents treat "-" as
// "_".
func normal(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// maxInput is less than the capacity of any pipe, so that an agent gets everything or nothing,
// never a part of a plug's number.
const maxInput = 32 << 10

// compose returns the input of an agent. The error names every invalid parameter, without values.
func compose(metadata agent.Metadata, action string, parameters agent.Parameters) ([]byte, error) {
	var errs []error
	broken := func(name, rule string) {
		errs = append(errs, fmt.Errorf("parameter %s %s", name, rule))
	}
	if !slices.Contains(metadata.Actions, action) {
		errs = append(errs, fmt.Errorf("%s has no action %s", metadata.Name, action))
	}
	var input strings.Builder
	fmt.Fprintf(&input, "action=%s\n", action)
	given := map[string]string{} // from the present name of a parameter to the given one
	for _, name := range parameters.Names() {
		value, _ := parameters.Get(name)
		parameter, found := find(metadata, name)
		if !found {
			broken(name, "is not one of "+metadata.Name)
			continue
		}
		if other := given[parameter.Name]; other != "" {
			broken(name, "is the same as "+other+", and both are given")
			continue
		}
		given[parameter.Name] = name
		if why := refusal(parameter.Name); why != "" {
			broken(name, "must not be set: it "+why)
			continue
		}
		if rule := deviation(metadata, parameters, parameter, value); rule != "" {
			broken(name, rule)
			continue
		}
		if parameter.Type == agent.TypeBoolean {
			if value = truth(parameter, value); value == "" {
				continue
			}
		}
		line, err := nodeconfig.Format(parameter.Name, value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		input.WriteString(line)
	}
	for _, parameter := range metadata.Parameters {
		if parameter.Required && parameter.Default == "" && !parameter.Deprecated &&
			normal(parameter.Name) != "action" &&
			given[parameter.Name] == "" {
			broken(parameter.Name, "is required")
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if input.Len() > maxInput {
		return nil, fmt.Errorf("the parameters have more than %d bytes", maxInput)
	}
	return []byte(input.String()), nil
}

// find returns the parameter with a name or a former name.
func find(metadata agent.Metadata, name string) (agent.ParameterSpec, bool) {
	name = normal(name)
	var old agent.ParameterSpec
	for _, parameter := range metadata.Parameters {
		if !parameter.Deprecated &&
			(normal(parameter.Name) == name ||
				slices.ContainsFunc(parameter.Obsoletes, func(o string) bool { return normal(o) == name })) {
			return parameter, true
		}
		if normal(parameter.Name) == name {
			old = parameter
		}
	}
	return old, old.Name != ""
}

// Values that mean true and false to agents.
var (
	truths   = []string{"1", "yes", "on", "true"}
	untruths = []string{"0", "no", "off", "false"}
)

// truth returns the value that an agent gets for true or false. It is empty if the parameter is not
// sent, because many agents treat any value as true.
func truth(parameter agent.ParameterSpec, value string) string {
	switch {
	case slices.Contains(truths, strings.ToLower(value)):
		return "1"
	case slices.Contains(truths, strings.ToLower(parameter.Default)):
		return "0"
	default:
		return ""
	}
}

// Parameters that agents pass on as unquoted arguments, by their present normal names.
var words = []string{"ip", "target", "cipher", "hexadecimal_kg", "identity_file"}

// deviation returns the rule that a value breaks if an agent would understand it as something other
// or more than intended.
func deviation(
	metadata agent.Metadata,
	parameters agent.Parameters,
	parameter agent.ParameterSpec,
	value string,
) (rule string) {
	name := normal(parameter.Name)
	word := slices.Contains(words, name)
	if _, ssh := find(metadata, "ssh_path"); ssh && name == "username" {
		word = true // an argument of ssh
	}
	switch {
	case parameter.Type == agent.TypeBoolean &&
		!slices.Contains(slices.Concat(truths, untruths), strings.ToLower(value)):
		return "must be 1, yes, on, true, 0, no, off or false"
	case word && (strings.HasPrefix(value, "-") || strings.ContainsFunc(value, unicode.IsSpace)):
		return "must be one word that does not begin with - (or a program that the agent runs would take options " +
			"from it)"
	case name == "plug" && strings.Contains(value, separator(metadata, parameters)):
		return "must be one plug (of a list, some agents switch and read but the first)"
	default:
		return ""
	}
}

// separator returns the separator of plugs in a list.
func separator(metadata agent.Metadata, parameters agent.Parameters) string {
	const name, usual = "plug_separator", ","
	for _, given := range parameters.Names() {
		if value, _ := parameters.Get(given); normal(given) == name && value != "" {
			return value
		}
	}
	if parameter, found := find(metadata, name); found && parameter.Default != "" {
		return parameter.Default
	}
	return usual
}
