package fenceagents

import (
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// answer is how a program has ended, and what it complained of, without secrets.
type answer struct {
	outcome
	complaint string
}

// Exit codes of a program that was asked for the status.
const (
	exitOn  = 0
	exitOff = 2
)

// reading is on or off only if exit code and output say so alike. Interpreters, too, end with 2
// when they cannot open their script, and agents with 0 when they have only printed their version.
func reading(a answer) (v1alpha1.Power, error) {
	if a.truncated {
		return v1alpha1.PowerUnknown, fmt.Errorf("more than %d bytes of output", maxOutput)
	}
	var said []string
	for line := range strings.Lines(string(a.stdout)) {
		if status, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(line)), "status:"); found {
			said = append(said, strings.TrimSpace(status))
		}
	}
	switch {
	case len(said) == 1 && said[0] == "on" && a.code == exitOn:
		return v1alpha1.PowerOn, nil
	case len(said) == 1 && said[0] == "off" && a.code == exitOff:
		return v1alpha1.PowerOff, nil
	case a.code != exitOn && a.code != exitOff:
		return v1alpha1.PowerUnknown, fmt.Errorf("exit code %d", a.code)
	default:
		return v1alpha1.PowerUnknown, fmt.Errorf(
			"exit code %d does not go with the output, in which %d lines tell a status",
			a.code,
			len(said),
		)
	}
}
