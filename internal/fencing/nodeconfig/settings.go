package nodeconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// Limits of config.properties.
const (
	maxDuration = 24 * time.Hour
	maxCount    = 100
)

var requiredSettings = []string{"node_name", isolation, powerManagement, recovery}

var knownSettings = append([]string{
	"power_on", "not_ready_for", "power_wait", "boot_grace", "retries", "restarts", "kdump", "kdump_timeout",
	"power_management.2",
}, requiredSettings...)

// readSettings reads config.properties into the plan.
func (s *subject) readSettings(entries []entry) {
	s.plan = nodeplan.Defaults()
	s.plan.Node, s.plan.Object = s.node.Name, s.object
	s.plan.NotReadyFor = cmp.Or(s.from.NotReadyFor, s.plan.NotReadyFor)
	lines := map[string]int{}
	var steps []step
	for _, e := range entries {
		key := strings.Replace(e.key, "power_managment", powerManagement, 1)
		if first, duplicate := lines[key]; duplicate {
			s.problem(e.at, once("key", first), e.name)
			continue
		}
		lines[key] = e.at.line
		name, number, isStep := stepOf(key)
		switch {
		case (key != "node_name" || e.value != nodeNamePlaceholder) && !s.noPlaceholder(e):
		case isStep:
			steps = append(steps, step{entry: e, step: name, number: number})
		default:
			s.readSetting(key, e)
		}
	}
	for _, key := range requiredSettings {
		if lines[key] == 0 {
			s.problem(place{object: s.object, key: settingsKey}, "key "+key+" is required", "")
		}
	}
	s.readSteps(steps)
}

func (s *subject) readSetting(key string, e entry) {
	switch key {
	case "node_name":
		s.readNodeName(e)
	case "power_on":
		s.plan.PowerOn = nodeplan.PowerOn(s.choice(e, "always", "never", "manual"))
	case "not_ready_for":
		s.plan.NotReadyFor = s.duration(e, 0)
	case "power_wait":
		s.plan.PowerWait = s.duration(e, 0)
	case "boot_grace":
		s.plan.BootGrace = s.duration(e, time.Second) // with 0, every boot would be a failure
	case "kdump_timeout":
		s.plan.KdumpTimeout = s.duration(e, 0)
	case "retries":
		s.plan.Retries = s.count(e, 1)
	case "restarts":
		s.plan.Restarts = s.count(e, 0)
	case "kdump":
		s.plan.Kdump = s.choice(e, "yes", "no") == "yes"
	default:
		if strings.HasPrefix(key, isolation+".") {
			s.problem(e.at, "isolation has one level: all that is in it has to succeed, "+
				"but for must_success=no, and what comes after it is power_management", e.name)
			return
		}
		s.problem(e.at, nearest("key is not known here", key, knownSettings), e.name)
	}
}

func (s *subject) readNodeName(e entry) {
	switch {
	case e.value == seedPlaceholder || e.value == nodeNamePlaceholder:
	case e.value != s.node.Name:
		s.problem(e.at, fmt.Sprintf("node_name must be %s or %s", s.node.Name, seedPlaceholder), e.value)
	case s.general:
		s.problem(e.at, fmt.Sprintf("node_name must be %s in an object of a type", seedPlaceholder), e.value)
	}
}

func (s *subject) choice(e entry, choices ...string) string {
	value := strings.ToLower(e.value)
	if !slices.Contains(choices, value) {
		s.badValue(e, "must be one of "+strings.Join(choices, ", "))
	}
	return value
}

func (s *subject) duration(e entry, least time.Duration) time.Duration {
	d, err := time.ParseDuration(e.value)
	if err != nil || d < least || d > maxDuration {
		s.badValue(e, fmt.Sprintf("must be a duration such as 90s or 5m, from %v to %v", least, maxDuration))
	}
	return d
}

func (s *subject) count(e entry, least int) int32 {
	n, err := strconv.Atoi(e.value)
	if err != nil || n < least || n > maxCount || strconv.Itoa(n) != e.value {
		s.badValue(e, fmt.Sprintf("must be a number from %d to %d", least, maxCount))
	}
	return int32(n)
}

func (s *subject) badValue(e entry, rule string) {
	s.problem(e.at, e.key+" "+rule, cmp.Or(e.value, "nothing"))
}
