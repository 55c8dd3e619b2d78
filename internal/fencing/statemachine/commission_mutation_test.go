//go:build !race

package statemachine_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

// commissionMutations are what may happen to somebody who does not know why a line is there. Each
// has to be caught by the test that is about it.
var commissionMutations = []mutation.Mutation{
	{
		Name: "the cordon does not matter", File: "commission.go", Old: "case !n.Cordoned:", New: "case false:",
		Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "nodes that fail are tried", File: "commission.go", Old: "case !begun && !t.cleared(n):",
		New:    "case false:",
		Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "nodes that have rebooted are tried", File: "commission.go",
		Old: "case !begun && n.BootID != t.s.BootID:", New: "case false:", Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "the boot ID that was meant does not matter", File: "commission.go",
		Old: "case level == 1 && !askedOf(t.s.Commission.Asked, t.s.BootID):", New: "case false:",
		Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "the last look does not matter", File: "commission.go",
		Old: "		return t.failCommission(IntentCancelled, why, cancel(rec.Device))", New: "",
		Caught: "TestCommissionIsCancelledInTheLastMoment",
	},
	{
		Name: "what somebody else has switched off is switched on", File: "restore.go", Old: "power || rec.FoundOff ||",
		New: "power ||", Caught: "TestWhatSomebodyElseHasSwitchedOffIsNotSwitchedOn",
	},
	{
		Name: "a suspended machine is off", File: "poweroff.go",
		Old: "case before.power == agent.PowerOff && !d.OffIsProof:", New: "case false:",
		Caught: "TestSuspendedMachineIsNotOff",
	},
	{
		Name: "whatever reads off after a command was switched off", File: "poweroff.go",
		Old: "return d.OffIsProof || rec.Op != nil && rec.Op.ID == seen.sent", New: "return true",
		Caught: "TestSuspendedMachineIsNotOff",
	},
	{
		Name: "a command was sent, whatever its agent says", File: "memory.go", Old: "	if o.Sent {\n",
		New: "	if true {\n", Caught: "TestSuspendedMachineIsNotOff",
	},
	{
		Name: "what reads off is tried", File: "commission.go", Old: "case before.power != agent.PowerOn:",
		New: "case before.power == \"none\":", Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "the policy is not asked", File: "commission.go", Old: "	case a == nil, a.Verdict == policy.Allow:\n",
		New: "	case true:\n", Caught: "TestCommissionThatMayNotBegin",
	},
	{
		Name: "a known time is not waited for", File: "commission.go", Old: "a.Verdict != policy.Deny && a.After > 0",
		New: "false", Caught: "TestCommissionWaitsForAKnownTime",
	},
	{
		Name: "devices get the command again", File: "commission.go",
		Old: "	case rec.Touched:\n		return t.failCommission",
		New: "	case rec.Tries > 2:\n		return t.failCommission", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "any configuration will do", File: "commission.go", Old: "	case t.s.ConfigHash != t.Plan.Hash:\n",
		New: "	case false:\n", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "a Lease that is renewed does not matter", File: "commission.go",
		Old: "	case t.Memory.sinceChange.renewed:\n", New: "	case false:\n",
		Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "a node may stay for ever", File: "commission.go", Old: "	case n.Ready && left == 0:\n",
		New: "	case false:\n", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "who is Ready has gone away", File: "commission.go", Old: "	case n.Ready:\n		return Wait",
		New: "	case false:\n		return Wait", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "a device may be on again", File: "commission.go", Old: "	case p.on:\n		return t.failCommission",
		New: "	case false:\n		return t.failCommission", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "the same boot ID will do", File: "commission.go", Old: "n.BootID == \"\" || n.BootID == t.s.BootID",
		New: "n.BootID == \"\"", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "whatever has failed is proved", File: "commission.go", Old: "	case why != \"\":\n",
		New: "	case why == \"none\":\n", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "whatever was stopped is proved", File: "commission.go",
		Old: "	case t.s.Abort != v1alpha1.AbortCommission:\n", New: "	case false:\n",
		Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "a commission becomes a fence", File: "transition.go",
		Old: "stopped(t.s.Abort) || t.s.Commission != nil {",
		New: "stopped(t.s.Abort) {", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "power_on keeps it off", File: "restore.go", Old: " && t.s.Commission == nil", New: "",
		Caught: "TestCommissionTriesEachLevel",
	},
	{
		Name: "it counts as a repetition", File: "poweroff.go", Old: "!t.touched() && s.Commission == nil",
		New: "!t.touched()", Caught: "TestFlowOfACommission",
	},
	{
		Name: "what was asked for stays", File: "commission.go", Old: "case c != nil && c.Asked == asked:",
		New: "case c != nil && c.Asked == \"none\":", Caught: "TestCommissionThatProvesNothing",
	},
	{
		Name: "failing nodes are commissioned", File: "isolate.go", Old: "!= \"\" && t.Trigger == nil {",
		New:    "!= \"\" {",
		Caught: "TestFailingNodeIsFencedNotCommissioned",
	},
	{
		Name: "an old reading will do", File: "transition.go", Old: "recent = 10 * time.Second",
		New: "recent = 10 * time.Hour", Caught: "TestReadingOfSomeTimeAgoIsTakenAgain",
	},
	{
		Name: "what was read before a command proves its effect", File: "memory.go",
		Old: "m.devices[i].power, m.devices[i].twice = \"\", false\n	}\n	s := m.readingOf(step.Device)",
		New: "_ = i\n	}\n	s := m.readingOf(step.Device)", Caught: "TestWhatWasReadAheadProvesNothing",
	},
	{
		Name: "a plug that was on is on", File: "admin.go", Old: ", p.on && p.age > callWithin:", New: " && !p.on:",
		Caught: "TestConfirmationAfterThePlugWasReadAhead",
	},
	{
		Name: "a plug that was left is left for good", File: "ends.go",
		Old:    "case seen.power == agent.PowerOn:\n			return t.onSeen(rec, seen)",
		New:    "case seen.power == agent.PowerOn && false:\n			return t.onSeen(rec, seen)",
		Caught: "TestNodeThatWorksIsRecoveredWhenItsDeviceAnswersAgain",
	},
	{
		Name: "a hold says what was so first", File: "transition.go",
		Old: "same = wordsOf(h.Message) == wordsOf(message) ||", New: "same = true ||",
		Caught: "TestHoldIsCurrent",
	},
	{
		Name: "each number is news", File: "transition.go", Old: "wordsOf(h.Message) == wordsOf(message)",
		New: "h.Message == message", Caught: "TestHoldIsCurrent",
	},
	{
		Name: "who was away for long gives up", File: "recover.go", Old: "if t.s.Commission != nil && t.cleared(n) && ",
		New: "if false && t.cleared(n) && ", Caught: "TestCommissionSurvivesRestarts",
	},
}

func TestCommissionMutationsAreCaught(t *testing.T) {
	mutation.Catch(t, commissionMutations)
}
