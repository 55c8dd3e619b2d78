package v1alpha1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// State is a state of the automaton of the node fencing proposal, which a step and its stage stand for.
type State string

// The states of the proposal's automaton.
const (
	StateNew     State = "new"     // the node is failing
	StateRunning State = "running" // it is isolated
	StateDone    State = "done"    // its machine has power, and may come back
	StateFinal   State = "final"   // it works
	StateError   State = "error"   // a step has failed
)

// Automaton returns the state that a step and its stage stand for, in any of the spellings that [ParseStep] and [ParseStage] take.
func Automaton(step Step, stage Stage) (State, error) {
	step, err := ParseStep(string(step))
	if err != nil {
		return "", err
	}
	if stage, err = ParseStage(string(stage)); err != nil {
		return "", err
	}
	switch {
	case stage == StageError:
		return StateError, nil
	case step == StepIsolation && (stage == StageNew || stage == StageRunning):
		return StateNew, nil
	case step == StepIsolation && stage == StageDone, step == StepPowerManagement && (stage == StageNew || stage == StageRunning):
		return StateRunning, nil
	case step == StepPowerManagement && stage == StageDone, step == StepRecovery && (stage == StageNew || stage == StageRunning):
		return StateDone, nil
	case step == StepRecovery && (stage == StageDone || stage == StageFinal):
		return StateFinal, nil
	}
	return "", fmt.Errorf("v1alpha1: status: must not be %s in the step %s", stage, step)
}

// ParseStep reads the name of a step in the spellings of the proposal: in any case, with - or _, and as power-managment and recover.
func ParseStep(text string) (Step, error) {
	switch normal(text) {
	case "isolation":
		return StepIsolation, nil
	case "power-management", "power-managment":
		return StepPowerManagement, nil
	case "recovery", "recover":
		return StepRecovery, nil
	}
	return "", fmt.Errorf("v1alpha1: step: must be isolation, power-management or recovery (got %q)", text)
}

// ParseStage reads the status of a step, in any case.
func ParseStage(text string) (Stage, error) {
	for _, stage := range []Stage{StageNew, StageRunning, StageDone, StageFinal, StageError} {
		if normal(text) == normal(string(stage)) {
			return stage, nil
		}
	}
	return "", fmt.Errorf("v1alpha1: status: must be new, running, done, final or error (got %q)", text)
}

func normal(text string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "_", "-")
}

// ReadFlat reads a NodeFence, in YAML or JSON, whose status, step, retries and jobs are top-level fields, as the proposal has them; an API server
// cannot serve those beside a status subresource. Only they, the node and the metadata are taken over. A record that was
// read has no phase: it says what somebody else's controller did, and cannot be continued.
func ReadFlat(text []byte) (*NodeFence, error) {
	var flat struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Node     string            `json:"node"`
		Step     string            `json:"step"`
		Status   string            `json:"status"`
		Retries  int32             `json:"retries"`
		Jobs     []string          `json:"jobs"`
	}
	if err := yaml.Unmarshal(text, &flat); err != nil {
		return nil, fmt.Errorf("v1alpha1: not a NodeFence: %w", err)
	}
	switch {
	case flat.Kind != "" && flat.Kind != Kind().Kind:
		return nil, fmt.Errorf("v1alpha1: kind: must be %s (got %q)", Kind().Kind, flat.Kind)
	case flat.Node == "":
		return nil, fmt.Errorf("v1alpha1: node: must not be empty")
	case flat.Retries < 0:
		return nil, fmt.Errorf("v1alpha1: retries: must not be negative (got %d)", flat.Retries)
	}
	step, err := ParseStep(flat.Step)
	if err != nil {
		return nil, err
	}
	stage, err := ParseStage(flat.Status)
	if err != nil {
		return nil, err
	}
	if _, err := Automaton(step, stage); err != nil {
		return nil, err
	}
	fence := &NodeFence{ObjectMeta: flat.Metadata, Node: flat.Node}
	fence.SetGroupVersionKind(Kind())
	fence.Status = Status{Step: step, Status: stage, Retries: flat.Retries, Jobs: flat.Jobs}
	return fence, nil
}
