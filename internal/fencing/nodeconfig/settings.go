package nodeconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults and limits of config.properties.
const (
	defaultNotReadyFor  = 30 * time.Second
	defaultPowerWait    = 5 * time.Minute
	defaultBootGrace    = 10 * time.Minute
	defaultKdumpTimeout = 5 * time.Minute
	defaultRetries      = 3
	defaultRestarts     = 1

	maxDuration = 24 * time.Hour
	maxCount    = 100
	maxLevel    = 9
)

var requiredSettings = []string{"node_name", "isolation", "power_management", "recovery"}

var knownSettings = append([]string{
	"power_on", "not_ready_for", "power_wait", "boot_grace", "retries", "restarts", "kdump", "kdump_timeout",
	"power_management.2",
}, requiredSettings...)

// readSettings reads config.properties into the plan.
func (s *subject) readSettings(at place, entries []Entry) {
	s.plan = Plan{
		PowerOn: Always, NotReadyFor: cmp.Or(s.NotReadyFor, defaultNotReadyFor), PowerWait: defaultPowerWait,
		BootGrace: defaultBootGrace, Retries: defaultRetries, Restarts: defaultRestarts,
		KdumpTimeout: defaultKdumpTimeout,
	}
	given := map[string]place{}
	var steps []step
	for _, e := range entries {
		at.line = e.Line
		key := strings.Replace(e.Key, "power_managment", "power_management", 1)
		if first, duplicate := given[key]; duplicate {
			s.problem(at, fmt.Sprintf("key must be given once, and is in line %d already", first.line),
				e.Name)
			continue
		}
		given[key] = at
		name, level, isStep := stepOf(key)
		switch {
		case (key != "node_name" || e.Value != nodeNamePlaceholder) && !s.noPlaceholder(at, e.Value):
		case isStep:
			steps = append(steps, step{name, level, at, e.Value})
		default:
			s.readSetting(at, key, e)
		}
	}
	at.line = 0
	for _, key := range requiredSettings {
		if _, found := given[key]; !found {
			s.problem(at, "key "+key+" is required", "")
		}
	}
	s.readSteps(steps)
}

func (s *subject) readSetting(at place, key string, e Entry) {
	switch key {
	case "node_name":
		s.readNodeName(at, e)
	case "power_on":
		s.plan.PowerOn = PowerOn(s.choice(at, e, string(Always), string(Never), string(Manual)))
	case "not_ready_for":
		s.plan.NotReadyFor = s.duration(at, e, 0)
	case "power_wait":
		s.plan.PowerWait = s.duration(at, e, 0)
	case "boot_grace":
		s.plan.BootGrace = s.duration(at, e, time.Second) // with 0, every boot would be a failure
	case "kdump_timeout":
		s.plan.KdumpTimeout = s.duration(at, e, 0)
	case "retries":
		s.plan.Retries = s.count(at, e, 1)
	case "restarts":
		s.plan.Restarts = s.count(at, e, 0)
	case "kdump":
		s.plan.Kdump = s.choice(at, e, "yes", "no") == "yes"
	default:
		if strings.HasPrefix(key, isolation+".") {
			s.problem(at, "isolation has one level: all that is in it has to succeed, "+
				"but for must_success=no, and what comes after it is power_management", e.Name)
			return
		}
		s.problem(at, nearest("key is not known here", key, knownSettings), e.Name)
	}
}

func (s *subject) readNodeName(at place, e Entry) {
	switch e.Value {
	case seedPlaceholder, nodeNamePlaceholder:
		return
	case s.node.Name:
		if !s.general {
			return
		}
		s.problem(at, fmt.Sprintf("node_name must be %s in an object of a type", seedPlaceholder),
			e.Value)
	default:
		s.problem(at, fmt.Sprintf("node_name must be %s or %s", s.node.Name, seedPlaceholder), e.Value)
	}
}

func (s *subject) choice(at place, e Entry, choices ...string) string {
	value := strings.ToLower(e.Value)
	if !slices.Contains(choices, value) {
		s.badValue(at, e, "must be one of "+strings.Join(choices, ", "))
	}
	return value
}

func (s *subject) duration(at place, e Entry, least time.Duration) time.Duration {
	d, err := time.ParseDuration(e.Value)
	if err != nil || d < least || d > maxDuration {
		s.badValue(at, e, fmt.Sprintf("must be a duration such as 90s or 5m, from %v to %v", least, maxDuration))
	}
	return d
}

func (s *subject) count(at place, e Entry, least int) int {
	n, err := strconv.Atoi(e.Value)
	if err != nil || n < least || n > maxCount || strconv.Itoa(n) != e.Value {
		s.badValue(at, e, fmt.Sprintf("must be a number from %d to %d", least, maxCount))
	}
	return n
}

func (s *subject) badValue(at place, e Entry, rule string) {
	value := e.Value
	if value == "" {
		value = "nothing"
	}
	s.problem(at, e.Key+" "+rule, value)
}
