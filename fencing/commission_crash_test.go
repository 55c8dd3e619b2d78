//go:build !race

package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/mutation"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// A controller dies just before or just after each of its effects in turn while it commissions a
// node. Another one goes on. The machine loses its power at most once and has it in the end. The
// node is reported as proved exactly if it was.
func TestSimulatedDeathsInACommission(t *testing.T) {
	proof.Simulation(t)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			d := &death{after: after, left: n}
			t.Run(fmt.Sprintf("%d/after=%v", n, after), func(t *testing.T) {
				inWorld(t, 3, func(w *world) {
					w.cordon("n1", true)
					w.commission("n1", "0")
					first := w.doom("first", d)
					for range 1200 {
						if d.isDead() || w.phase("n1") == v1alpha1.PhaseFinal && !w.asked("n1") {
							break
						}
						wait(w.ctx, poll)
					}
					first.client.Sever()
					first.kill()
					second := w.start("second", nil)
					defer second.stop()
					w.eventually(20*time.Minute, "it ends",
						func() bool { return w.phase("n1") == v1alpha1.PhaseFinal && !w.asked("n1") })
					t.Logf("died at %q", d.what)
					wait(w.ctx, 20*time.Minute)
					f, offs := w.fence("n1"), w.rack.Count("n1", "command", agent.ActionOff)
					require.NotNil(t, f.Status.Commission)
					assert.True(t, w.rack.On("n1"))
					assert.True(t, w.node("n1").Spec.Unschedulable)
					assert.Empty(t, f.Annotations)
					if f.Status.Commission.Failed == "" {
						assert.Equal(t, 1, offs)
						assert.Len(t, w.proof("n1").Levels, 1)
					} else { // it was written down, and the process died before it was sent
						assert.Zero(t, offs, f.Status.Commission.Failed)
						assert.Empty(t, w.proof("n1").Levels)
						require.Len(t, f.Status.Devices, 1)
						assert.True(t, f.Status.Devices[0].Touched)
					}
				})
			})
			if !d.isDead() {
				break
			}
		}
	}
}

// mutations are what may happen to somebody who does not know why a line is there. Each has to be
// caught by the test that is about it.
var mutations = []mutation.Mutation{
	{
		Name: "each round is news", File: "checks.go", Old: "turned || old.Reason != condition.Reason",
		New:    "turned || wrong",
		Caught: "TestChangesOfReadinessAreEvents",
	},
	{
		Name: "it is said before it is written", File: "checks.go", Old: "\"status\"); err != nil {",
		New: "\"status\"); false {", Caught: "TestReadinessIsSaidOnceItIsWritten",
	},
	{
		Name: "it is said once", File: "checks.go", Old: "return time.Since(last) >= repeatEventsAfter",
		New: "return false", Caught: "TestPlugThatIsOffWhileItsNodeWorksProvesNothing",
	},
	{
		Name: "what another machine has proved will do", File: "readiness.go", Old: " || s.machine != machineOf(n)",
		New:    "",
		Caught: "TestPlugOfTheMachineThatWasReplacedProvesNothingToTheNextLeader",
	},
	{
		Name: "what was on once stays so", File: "readiness.go", Old: "s.has(d) && !r.contradicts", New: "s.has(d)",
		Caught: "TestPlugThatWasOffWhileItsNodeWorkedProvesNothingToTheNextLeader",
	},
	{
		Name: "the next leader does not learn of it", File: "checks.go",
		Old: "return node.Annotate(ctx, c.config.requireLeader, v1alpha1.AnnotationSeenOn, string(text))",
		New: "_, _ = text, node\n\treturn nil", Caught: "TestMachineThatIsOffAlreadyAndAnotherLeader",
	},
	{
		Name: "all levels are needed", File: "readiness.go", Old: "usable == 0", New: "usable < levels",
		Caught: "TestDeadBMCThenPDUsWithDefaultTimes",
	},
	{
		Name: "what cannot be asked is wrong", File: "plancache.go",
		Old: "case errors.Is(err, nodeconfig.ErrUnread) && last >= 0",
		New: "case false && last >= 0", Caught: "TestConfigurationThatWasGoodStaysSo",
	},
	{
		Name: "who is about to be removed is forgotten", File: "events.go", Old: "		if lost {\n",
		New: "		if false && lost {\n", Caught: "TestNodeThatIsToBeRemovedAndStaysIsAnAlarm",
	},
	{
		Name: "who came first is not written down", File: "checks.go",
		Old: "return node.Label(ctx, c.config.requireLeader, v1alpha1.LabelProvider, providerHash(n))",
		New: "_, _ = node, v1alpha1.LabelProvider\n\treturn nil", Caught: "TestProviderIDThatIsClaimedTwice",
	},
	{
		Name: "any claim is believed", File: "checks.go", Old: "if !found[d.Key].on {",
		New: "if _ = d; found == nil {", Caught: "TestProviderIDOfNothingIsNotVouchedFor",
	},
	{
		Name: "the whole is said once", File: "configuration.go",
		Old: "turned || time.Since(before.told) >= repeatEventsAfter", New: "turned",
		Caught: "TestConfigurationThatIsUnusableAsAWhole",
	},
	{
		Name: "a flaw is said at the next check", File: "checks.go", Old: "known.last.flawed != flawed\n",
		New: "false && flawed\n", Caught: "TestConfigurationThatIsUnusableAsAWhole",
	},
	{
		Name: "what may go off yet is not read", File: "execute.go", Old: "if len(step.Watch) == 0 {", New: "if true {",
		Caught: "TestInstanceThatTakesLongToStop",
	},
	{
		Name: "nothing is read ahead", File: "execute.go", Old: "if len(step.Ahead) > 0 {", New: "if false {",
		Caught: "TestDevicesAreReadAhead",
	},
	{
		Name: "all are read ahead at once", File: "devices.go", Old: "c.Limits.MaxConcurrent)",
		New: "1000)", Caught: "TestFewDevicesAreReadAheadAtATime",
	},
	{
		Name: "one problem is everybody's", File: "plancache.go", Old: "	plan, err := p.resolved.Plan(node)\n",
		New: "	plan, err := p.resolved.Plan(node)\n	if err == nil {\n		err = p.resolved.Validate()\n" +
			"	}\n",
		Caught: "TestOneBadConfigurationConcernsOneNode",
	},
	{
		Name: "a page makes a node gone", File: "fence.go",
		Old: "if kube.Absent(err, corev1.Resource(\"nodes\"), f.node) {", New: "if apierrors.IsNotFound(err) {",
		Caught: "TestPageOfAProxyMakesNothingGone",
	},
	{
		Name: "any answer makes a record gone", File: "client.go",
		Old: "return kube.Absent(err, v1alpha1.Resource().GroupResource(), v1alpha1.Name(node))",
		New: "_, of := err.(interface{ Status() metav1.Status })\n	return of || kube.Absent(err, " +
			"v1alpha1.Resource().GroupResource(), v1alpha1.Name(node))", Caught: "TestPageOfAProxyMakesNothingGone",
	},
	{
		Name: "who may not watch waits in silence", File: "controller.go",
		Old: "return fmt.Errorf(\"fencing: list %s %w\", list.what, err)", New: "_ = list.what",
		Caught: "TestControllerThatMayNotWatchDoesNotWaitInSilence",
	},
	{
		Name: "who waits for a human keeps a place", File: "clusterstate.go",
		Old: "	if needsHuman(f) {\n		return policy.FenceGivenUp\n	}\n	switch", New: "	switch",
		Caught: "TestNodeThatWaitsForAHumanDoesNotKeepOthersWaiting",
	},
	{
		Name: "who is paused keeps a place", File: "clusterstate.go",
		Old:    "return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionPaused) ||",
		New:    "return meta.IsStatusConditionTrue(nil, v1alpha1.ConditionPaused) ||",
		Caught: "TestFenceThatIsPausedHasNoSlot",
	},
	{
		Name: "pods of a lost node are waited for", File: "execute.go",
		Old: "err == nil && !f.shownReady()",
		New: "false", Caught: "TestVolumesOfALostNodeComeLooseWithTheRelease",
	},
	{
		Name: "power comes back in the order in which it went", File: "../internal/fencing/statemachine/restore.go",
		Old: "range slices.Backward(t.s.Devices) {", New: "range slices.All(t.s.Devices) {",
		Caught: "TestBMCThatIsFedByThePDUs",
	},
	{
		Name: "any node is cordoned", File: "commission.go", Old: "if !n.Spec.Unschedulable || ours {",
		New:    "if ours {",
		Caught: "TestCommissionIsRefused",
	},
	{
		Name: "any node is drained", File: "commission.go", Old: "case len(pods) > 0:", New: "case len(pods) > 1000:",
		Caught: "TestCommissionIsRefused",
	},
	{
		Name: "pods that come later do not matter", File: "commission.go",
		Old: "	if !target.Switched {\n		n, err", New: "	if false {\n		n, err",
		Caught: "TestNodeWithAPodKeepsItsPower",
	},
	{
		Name: "a node may be in a fence", File: "commission.go",
		Old: "case record.Status.Phase != v1alpha1.PhaseFinal:",
		New: "case record.Status.Phase == \"none\":", Caught: "TestCommissionIsRefused",
	},
	{
		Name: "a boot ID acts twice", File: "commission.go", Old: "} else if of != bootID {",
		New: "} else if of == \"none\" {", Caught: "TestCommissionIsAskedForByAnAnnotation",
	},
	{
		Name: "a value acts twice", File: "commission.go", Old: "	case tried(record, asked):\n		bad",
		New: "	case false:\n		bad", Caught: "TestCommissionIsAskedForByAnAnnotation",
	},
	{
		Name: "commissions have no slot", File: "clusterstate.go",
		Old: "	if d.Verdict == policy.Allow {\n		c.slots[target.Name] = true\n	}", New: "",
		Caught: "TestCommissionHasItsSlotAtOnce",
	},
	{
		Name: "who may begin has not begun", File: "clusterstate.go", Old: "f == nil || f.Status.Commission == nil",
		New: "f == nil && false", Caught: "TestSimulatedRateWithSlowWrites",
	},
	{
		Name: "any proof will do", File: "commission.go", Old: "p.UID != none.UID || p.Machine != none.Machine",
		New: "p.UID != none.UID", Caught: "TestOnlyCommissionedNodesAreFenced",
	},
	{
		Name: "part of a level will do", File: "commission.go",
		Old: "return slices.ContainsFunc(p.Levels, func(l ProvedLevel) bool { return maps.Equal(l.Devices, devices) })",
		New: "return len(p.Levels) > 0", Caught: "TestCommissionProvesTheDevices",
	},
	{
		Name: "uncommissioned nodes are fenced", File: "fence.go",
		Old: "target.Unproved = f.state.unproved(f.node, f.plan)",
		New: "", Caught: "TestOnlyCommissionedNodesAreFenced",
	},
	{
		Name: "a command without its Secret is no try", File: "execute.go", Old: "	unsent := err != nil\n",
		New:    "	unsent := err != nil\n	if unsent {\n		return err\n	}\n",
		Caught: "TestSecretThatIsDeletedDuringAFence",
	},
	{
		Name: "a command waits for Secrets", File: "execute.go", Old: "context.WithTimeout(ctx, reachWithin)",
		New: "context.WithTimeout(ctx, requestTimeout)", Caught: "TestSecretsThatAreSlowlyRefused",
	},
	{
		Name: "who is held for its node keeps a place", File: "clusterstate.go", Old: `"NodeReady", "NoPowerDevice",`,
		New: "", Caught: "TestFenceThatIsHeldAfterItsFirstCommandHasNoSlot",
	},
	{
		Name: "who may begin and does not keeps a place", File: "clusterstate.go", Old: "if !beginning(f) {",
		New: "if fenceState(f) != policy.FenceQueued {", Caught: "TestFenceThatMayBeginAndDoesNotHasNoSlot",
	},
	{
		Name: "the only replica leaves too soon", File: "controller.go", Old: "time.Since(t.began) >= 2*",
		New: "time.Since(t.began) >= 0*", Caught: "TestOnlyReplicaOnAFailingNodeFencesOthers",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, mutations)
}
