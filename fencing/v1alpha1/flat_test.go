package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

func TestFlatRecordOfTheProposalIsRead(t *testing.T) {
	const text = `
apiVersion: ha.k8s.io/v1
jobs:
- gcloud-reset-inst-9cf8f46e-f44b-11e7-8977-68f728ac95ea
- clean-pods-9d0b1321-f44b-11e7-8977-68f728ac95ea
kind: NodeFence
metadata:
  clusterName: ""
  creationTimestamp: 2018-01-08T08:11:03Z
  generation: 0
  name: node-fence-host1.example
  resourceVersion: "163898"
  uid: 77fdb386-f44b-11e7-bec9-001a4a16015a
node: host1.example
retries: 2
status: Done
step: Power-Management
`
	fence, err := v1alpha1.ReadFlat([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, "node-fence-host1.example", fence.Name)
	assert.Equal(t, v1alpha1.Kind(), fence.GroupVersionKind())
	assert.Equal(t, "host1.example", fence.Node)
	assert.Equal(t, v1alpha1.Status{
		Step: v1alpha1.StepPowerManagement, Status: v1alpha1.StageDone, Retries: 2,
		Jobs: []string{"gcloud-reset-inst-9cf8f46e-f44b-11e7-8977-68f728ac95ea", "clean-pods-9d0b1321-f44b-11e7-8977-68f728ac95ea"},
	}, fence.Status)
}

func TestFlatRecordsThatAreRefused(t *testing.T) {
	for text, message := range map[string]string{
		"{":                                    "v1alpha1: not a NodeFence: ",
		"kind: Pod":                            `v1alpha1: kind: must be NodeFence (got "Pod")`,
		"step: recover":                        "v1alpha1: node: must not be empty",
		"{node: n, step: reboot, status: new}": `v1alpha1: step: must be isolation, power-management or recovery (got "reboot")`,
		"{node: n, step: recover, status: halted}":     `v1alpha1: status: must be new, running, done, final or error (got "halted")`,
		"{node: n, step: isolation, status: final}":    "v1alpha1: status: must not be Final in the step Isolation",
		"{node: n, step: a, status: new, retries: -1}": "v1alpha1: retries: must not be negative (got -1)",
	} {
		_, err := v1alpha1.ReadFlat([]byte(text))
		assert.ErrorContains(t, err, message, text)
	}
}

func TestSpellingsOfTheProposal(t *testing.T) {
	for _, c := range []struct {
		step, stage string
		want        v1alpha1.State
	}{
		{"Isolation", "New", v1alpha1.StateNew},
		{"isolation", "running", v1alpha1.StateNew},
		{"ISOLATION", "done", v1alpha1.StateRunning},
		{"power_managment", "new", v1alpha1.StateRunning},
		{"Power-Management", "Running", v1alpha1.StateRunning},
		{"power_management", "Done", v1alpha1.StateDone},
		{"recover", "new", v1alpha1.StateDone},
		{"Recovery", "running", v1alpha1.StateDone},
		{"recovery", "done", v1alpha1.StateFinal},
		{"recovery", " Final ", v1alpha1.StateFinal},
		{"isolation", "error", v1alpha1.StateError},
		{"Recovery", "ERROR", v1alpha1.StateError},
	} {
		state, err := v1alpha1.Automaton(v1alpha1.Step(c.step), v1alpha1.Stage(c.stage))
		require.NoError(t, err, c)
		assert.Equal(t, c.want, state, c)
	}
	_, err := v1alpha1.Automaton("recovery", "held")
	assert.Error(t, err)
	_, err = v1alpha1.Automaton("", v1alpha1.StageNew)
	assert.Error(t, err)
}
