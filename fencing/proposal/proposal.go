// Package proposal reads records in the form of the Kubernetes node fencing proposal, whose states
// are those of NodeFence.
package proposal

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// State is a state of the automaton in the node fencing proposal. A step and its stage determine
// it.
type State string

// The states of the proposal's automaton.
const (
	StateNew     State = "new"     // the node is failing
	StateRunning State = "running" // it is isolated
	StateDone    State = "done"    // its machine has power, and may come back
	StateFinal   State = "final"   // it works
	StateError   State = "error"   // a step has failed
)

// Automaton returns the state for a step and its stage, in all spellings that [ParseStep] and
// [ParseStage] accept.
func Automaton(step v1alpha1.Step, stage v1alpha1.Stage) (State, error) {
	step, err := ParseStep(string(step))
	if err != nil {
		return "", err
	}
	if stage, err = ParseStage(string(stage)); err != nil {
		return "", err
	}
	begun := stage == v1alpha1.StageNew || stage == v1alpha1.StageRunning
	done := stage == v1alpha1.StageDone
	switch {
	case stage == v1alpha1.StageError:
		return StateError, nil
	case step == v1alpha1.StepIsolation && begun:
		return StateNew, nil
	case step == v1alpha1.StepIsolation && done, step == v1alpha1.StepPowerManagement && begun:
		return StateRunning, nil
	case step == v1alpha1.StepPowerManagement && done, step == v1alpha1.StepRecovery && begun:
		return StateDone, nil
	case step == v1alpha1.StepRecovery && (done || stage == v1alpha1.StageFinal):
		return StateFinal, nil
	}
	return "", fmt.Errorf("proposal: status: must not be %s in the step %s", stage, step)
}

// ParseStep reads the name of a step in the spellings of the proposal: in any case, with - or _,
// and as power-managment and recover.
func ParseStep(text string) (v1alpha1.Step, error) {
	switch normal(text) {
	case "isolation":
		return v1alpha1.StepIsolation, nil
	case "power-management", "power-managment":
		return v1alpha1.StepPowerManagement, nil
	case "recovery", "recover":
		return v1alpha1.StepRecovery, nil
	}
	return "", fmt.Errorf("proposal: step: must be isolation, power-management or recovery (got %q)", text)
}

// ParseStage reads the status of a step, in any case.
func ParseStage(text string) (v1alpha1.Stage, error) {
	for _, stage := range []v1alpha1.Stage{
		v1alpha1.StageNew, v1alpha1.StageRunning, v1alpha1.StageDone,
		v1alpha1.StageFinal, v1alpha1.StageError,
	} {
		if normal(text) == normal(string(stage)) {
			return stage, nil
		}
	}
	return "", fmt.Errorf("proposal: status: must be new, running, done, final or error (got %q)", text)
}

func normal(text string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "_", "-")
}

// ReadFlat reads a v1alpha1.NodeFence, in YAML or JSON, whose status, step, retries and jobs are
// top-level fields, as in the proposal. An API server cannot serve these beside a status
// subresource. Only they, the node and the metadata are read. The record has no phase, because it
// describes the actions of another controller and cannot be continued.
func ReadFlat(text []byte) (*v1alpha1.NodeFence, error) {
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
		return nil, fmt.Errorf("proposal: not a NodeFence: %w", err)
	}
	switch {
	case flat.Kind != "" && flat.Kind != v1alpha1.Kind().Kind:
		return nil, fmt.Errorf("proposal: kind: must be %s (got %q)", v1alpha1.Kind().Kind, flat.Kind)
	case flat.Node == "":
		return nil, fmt.Errorf("proposal: node: must not be empty")
	case flat.Retries < 0:
		return nil, fmt.Errorf("proposal: retries: must not be negative (got %d)", flat.Retries)
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
	fence := &v1alpha1.NodeFence{ObjectMeta: flat.Metadata, Node: flat.Node}
	fence.SetGroupVersionKind(v1alpha1.Kind())
	fence.Status.Progress = v1alpha1.Progress{Step: step, Status: stage, Retries: flat.Retries, Jobs: flat.Jobs}
	return fence, nil
}
