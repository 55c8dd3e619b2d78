package fenceagents

import (
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// answer has how a program ended, with its error output without secrets.
type answer struct {
	outcome
	complaint string
}

// already reports whether a program has sent nothing, because the plug was found so.
func already(a answer) bool {
	return strings.Contains(strings.ToLower(string(a.stdout)), "success: already ")
}

// unseen reports whether a program has sent its command and given up waiting for the effect.
func unseen(a answer) bool {
	return strings.Contains(strings.ToLower(string(a.stderr.kept)), "timed out waiting to power o")
}

// Exit codes for the action status.
const (
	exitOn  = 0
	exitOff = 2
)

// reading is on or off only if exit code and output agree. Interpreters also end with 2 when they
// cannot open their script, and agents with 0 after printing their version.
func reading(a answer) (agent.Power, error) {
	if a.truncated {
		return agent.PowerUnknown, fmt.Errorf("more than %d bytes of output", maxOutput)
	}
	var said []string
	for line := range strings.Lines(string(a.stdout)) {
		if status, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(line)), "status:"); found {
			said = append(said, strings.TrimSpace(status))
		}
	}
	switch {
	case len(said) == 1 && said[0] == "on" && a.code == exitOn:
		return agent.PowerOn, nil
	case len(said) == 1 && said[0] == "off" && a.code == exitOff:
		return agent.PowerOff, nil
	case a.code != exitOn && a.code != exitOff:
		return agent.PowerUnknown, fmt.Errorf("exit code %d", a.code)
	default:
		return agent.PowerUnknown, fmt.Errorf(
			"exit code %d does not go with the output, in which %d lines tell a status",
			a.code,
			len(said),
		)
	}
}
