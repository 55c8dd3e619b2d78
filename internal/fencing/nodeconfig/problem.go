package nodeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a [Problem], for programs.
type Kind string

// The rules that a configuration can break.
const (
	NoSeparator        Kind = "NoSeparator"        // a line without "="
	BadKey             Kind = "BadKey"             // not a key by the grammar
	DuplicateKey       Kind = "DuplicateKey"       // a key, parameter or method twice, even under different names
	UnknownKey         Kind = "UnknownKey"         // a key without a meaning in this place
	BadText            Kind = "BadText"            // control characters, a byte order mark, invalid UTF-8
	LineTooLong        Kind = "LineTooLong"        // more than 4 KiB
	TrailingBackslash  Kind = "TrailingBackslash"  // an unquoted value that seems to continue in the next line
	MissingKey         Kind = "MissingKey"         // a required key
	NodeNameDiffers    Kind = "NodeNameDiffers"    // node_name is of another node than the object
	TwoNodeObjects     Kind = "TwoNodeObjects"     // fence-config-node-<node> and fence-config-<node>
	UnknownMethod      Kind = "UnknownMethod"      // neither built in nor defined in the object
	RepeatedMethod     Kind = "RepeatedMethod"     // twice in a step
	Comma              Kind = "Comma"              // in a list, which is separated by blanks
	UnknownTemplate    Kind = "UnknownTemplate"    // no ConfigMap of that name
	NoAgent            Kind = "NoAgent"            // a template without agent_name
	UnknownAgent       Kind = "UnknownAgent"       // not installed
	UnknownParameter   Kind = "UnknownParameter"   // not in the metadata of the agent
	MissingParameter   Kind = "MissingParameter"   // required by the metadata of the agent
	BadParameter       Kind = "BadParameter"       // not of the parameter's type, empty, or not to be set
	BadAction          Kind = "BadAction"          // not on, off, reboot or cycle, or unknown to the agent
	OffAfterOn         Kind = "OffAfterOn"         // in a level of power_management
	OffWithoutOn       Kind = "OffWithoutOn"       // a device would stay off
	OnWithoutOff       Kind = "OnWithoutOff"       // a device is switched on that the level has not switched off
	NothingOff         Kind = "NothingOff"         // a level of power_management that switches nothing off
	WrongStep          Kind = "WrongStep"          // a method in the wrong step
	LevelGap           Kind = "LevelGap"           // a fallback level without the one before
	PlugList           Kind = "PlugList"           // several plugs in one method
	AgentCycle         Kind = "AgentCycle"         // the agent's own method=cycle, which proves nothing
	BadSecret          Kind = "BadSecret"          // a reference to a Secret that is wrong or missing
	PlainPassword      Kind = "PlainPassword"      // a password that is not in a Secret; a warning unless StrictSecrets
	BadValue           Kind = "BadValue"           // a duration, number or choice in config.properties
	UnknownPlaceholder Kind = "UnknownPlaceholder" // "{{" that is not a placeholder, or not in a parameter
	NoNodeFact         Kind = "NoNodeFact"         // a placeholder for a fact that the node lacks
	NoAddress          Kind = "NoAddress"          // the device is undetermined
	// one plug for two nodes, twice in a level, or in isolation and power management
	SharedPlug     Kind = "SharedPlug"
	SettleTooShort Kind = "SettleTooShort" // a command may take longer to land
	MustSucceed    Kind = "MustSucceed"    // must_success=no in power_management
	// an agent or a Secret could not be read; it may be correct
	NotKnown      Kind = "NotKnown"
	NotConfigured Kind = "NotConfigured" // restart-instance without fence-method-template-cloud

	TypeCollision      Kind = "TypeCollision"      // warning: different types of nodes with one object
	UnusedMethod       Kind = "UnusedMethod"       // warning: defined, but in no step
	UnusedObject       Kind = "UnusedObject"       // warning: a configuration of no node
	StaysUnschedulable Kind = "StaysUnschedulable" // warning: recovery=mark-unschedulable
	NoEffect           Kind = "NoEffect"           // warning: pods or volumes in recovery
)

// Unknown reports whether a part of err means that something could not be read. Then an earlier
// result from the same objects is still valid.
func Unknown(err error) bool {
	return slices.ContainsFunc(Problems(err), func(p *Problem) bool { return p.Kind == NotKnown })
}

// oneLine returns the text of an error in one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Problem is an error or a warning about a configuration.
type Problem struct {
	Kind Kind
	// Object is the name of the ConfigMap, Key its data key, and Line the line in it, from 1. Key
	// and Line may be missing. The built-in configuration has the name "built-in".
	Object, Key string
	Line        int
	// Rule is the broken rule, for users.
	Rule string
	// Value is the found value, or a description. It is never a password.
	Value string
}

// Error returns "object/key:line: rule (got value)".
func (p *Problem) Error() string {
	var s strings.Builder
	s.WriteString(p.Object)
	if p.Key != "" {
		s.WriteString("/" + p.Key)
	}
	if p.Line > 0 {
		fmt.Fprintf(&s, ":%d", p.Line)
	}
	s.WriteString(": " + p.Rule)
	if p.Value != "" {
		fmt.Fprintf(&s, " (got %s)", shorten(p.Value))
	}
	return s.String()
}

// Problems returns the problems that err joins, in order.
func Problems(err error) []*Problem {
	var problem *Problem
	switch e := err.(type) { //nolint:errorlint // joined errors are checked one by one
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var all []*Problem
		for _, one := range e.Unwrap() {
			all = append(all, Problems(one)...)
		}
		return all
	default:
		if errors.As(err, &problem) {
			return []*Problem{problem}
		}
		return nil
	}
}

// place is a position in a configuration.
type place struct {
	object, key string
	line        int
}

// review collects problems and warnings, each once.
type review struct {
	problems, warnings []*Problem
	seen               map[Problem]bool
}

func (r *review) problem(kind Kind, at place, rule, value string) {
	r.problems = r.add(r.problems, &Problem{kind, at.object, at.key, at.line, rule, value})
}

func (r *review) warning(kind Kind, at place, rule, value string) {
	r.warnings = r.add(r.warnings, &Problem{kind, at.object, at.key, at.line, rule, value})
}

// take adds the findings of another review.
func (r *review) take(other review) {
	r.problems, r.warnings = r.add(r.problems, other.problems...), r.add(r.warnings, other.warnings...)
}

func (r *review) add(all []*Problem, more ...*Problem) []*Problem {
	if r.seen == nil {
		r.seen = map[Problem]bool{}
	}
	for _, p := range more {
		if !r.seen[*p] {
			r.seen[*p] = true
			all = append(all, p)
		}
	}
	return all
}

func (r *review) err() error {
	errs := make([]error, len(r.problems))
	for i, p := range r.problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// maxShown is the maximum length of a value in an error.
const maxShown = 80

func shorten(value string) string {
	runes := []rune(value)
	if len(runes) > maxShown {
		return fmt.Sprintf("%q...", string(runes[:maxShown]))
	}
	return fmt.Sprintf("%q", value)
}

// nearest adds the most similar known name to a rule, if there is one.
func nearest(rule, name string, known []string) string {
	best, distance := "", len(name)/3+2
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := edits(name, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return rule
	}
	return fmt.Sprintf("%s; did you mean %s?", rule, best)
}

// edits returns the number of bytes to change, add or remove to turn a into b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
