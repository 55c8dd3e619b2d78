package proposal_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/proposal"
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
	fence, err := proposal.ReadFlat([]byte(text))
	require.NoError(t, err)
	assert.Equal(t, "node-fence-host1.example", fence.Name)
	assert.Equal(t, v1alpha1.Kind(), fence.GroupVersionKind())
	assert.Equal(t, "host1.example", fence.Node)
	assert.Equal(t, v1alpha1.Status{
		Progress: v1alpha1.Progress{
			Step: v1alpha1.StepPowerManagement, Status: v1alpha1.StageDone, Retries: 2, Jobs: []string{
				"gcloud-reset-inst-9cf8f46e-f44b-11e7-8977-68f728ac95ea",
				"clean-pods-9d0b1321-f44b-11e7-8977-68f728ac95ea",
			},
		},
	}, fence.Status)
}

func TestFlatRecordsThatAreRefused(t *testing.T) {
	for text, message := range map[string]string{
		"{":             "proposal: not a NodeFence: ",
		"kind: Pod":     `proposal: kind: must be NodeFence (got "Pod")`,
		"step: recover": "proposal: node: must not be empty",
		"{node: n, step: reboot, status: new}": `proposal: step: must be isolation, power-management or recovery ` +
			`(got "reboot")`,
		"{node: n, step: recover, status: halted}": `proposal: status: must be new, running, done, final or ` +
			`error (got "halted")`,
		"{node: n, step: isolation, status: final}":    "proposal: status: must not be Final in the step Isolation",
		"{node: n, step: a, status: new, retries: -1}": "proposal: retries: must not be negative (got -1)",
	} {
		_, err := proposal.ReadFlat([]byte(text))
		assert.ErrorContains(t, err, message, text)
	}
}

func TestSpellingsOfTheProposal(t *testing.T) {
	for _, c := range []struct {
		step, stage string
		want        proposal.State
	}{
		{"Isolation", "New", proposal.StateNew},
		{"isolation", "running", proposal.StateNew},
		{"ISOLATION", "done", proposal.StateRunning},
		{"power_managment", "new", proposal.StateRunning},
		{"Power-Management", "Running", proposal.StateRunning},
		{"power_management", "Done", proposal.StateDone},
		{"recover", "new", proposal.StateDone},
		{"Recovery", "running", proposal.StateDone},
		{"recovery", "done", proposal.StateFinal},
		{"recovery", " Final ", proposal.StateFinal},
		{"isolation", "error", proposal.StateError},
		{"Recovery", "ERROR", proposal.StateError},
	} {
		state, err := proposal.Automaton(v1alpha1.Step(c.step), v1alpha1.Stage(c.stage))
		require.NoError(t, err, c)
		assert.Equal(t, c.want, state, c)
	}
	_, err := proposal.Automaton("recovery", "held")
	assert.Error(t, err)
	_, err = proposal.Automaton("", v1alpha1.StageNew)
	assert.Error(t, err)
}
