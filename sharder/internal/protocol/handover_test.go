package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnObjectIsHandedOverWhenNothingOfItIsInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		Handover
		want DrainAction
	}{
		"mine":             {Handover{Assignment: AssignedHere, Version: "5"}, DoNothing},
		"somebody else's":  {Handover{Assignment: AssignedElsewhere}, DoNothing},
		"of another epoch": {Handover{Assignment: AssignedFormerEpoch, Version: "5"}, DoNothing},
		"drained":          {Handover{Assignment: AssignedDraining, Version: "5"}, StopAdmission},
		"drained, at work": {
			Handover{Assignment: AssignedDraining, Version: "5", AtWork: true},
			StopAdmission,
		},
		"drained again":             {Handover{Assignment: AssignedDraining, Version: "9", Floor: "7"}, StopAdmission},
		"drained, without versions": {Handover{Assignment: AssignedDraining}, StopAdmission},
		"drained, before the last acknowledgement": {
			Handover{Assignment: AssignedDraining, Version: "5", Floor: "7"}, DoNothing,
		},
		"drained, version unknown": {Handover{Assignment: AssignedDraining, Floor: "7"}, DoNothing},

		"stray": {Handover{Assignment: AssignedUnrecorded, Version: "5"}, ReturnObject},
		"stray, before the last acknowledgement": {
			Handover{Assignment: AssignedUnrecorded, Version: "5", Floor: "7"}, DoNothing,
		},

		"shut, at work": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, AtWork: true}, AwaitWork,
		},
		"shut, at work for too long": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, AtWork: true, Overdue: true}, CancelWork,
		},
		"shut, a request is open": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, Pending: true}, AwaitWork,
		},
		"shut, a request is open for long": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, Pending: true, Overdue: true}, AwaitWork,
		},
		"shut, at work and a request open": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, AtWork: true, Pending: true}, AwaitWork,
		},
		"shut, nothing in flight": {
			Handover{DrainState: Closing, Assignment: AssignedDraining, Version: "5"}, SendAck,
		},
		"shut, drain withdrawn": {
			Handover{DrainState: Closing, Assignment: AssignedHere, Version: "6"}, ResumeAdmission,
		},
		"shut, drain withdrawn during work": {
			Handover{DrainState: Closing, Assignment: AssignedHere, Version: "6", AtWork: true, Overdue: true},
			ResumeAdmission,
		},
		"shut, label removed": {Handover{DrainState: Closing, Assignment: AssignedElsewhere}, ResumeAdmission},
		"shut, record removed": {
			Handover{DrainState: Closing, Assignment: AssignedUnrecorded, Version: "6"}, ResumeAdmission,
		},
		"shut, sharder has moved on": {
			Handover{DrainState: Closing, Assignment: AssignedFormerEpoch, Version: "6"}, ResumeAdmission,
		},

		"sent, still drained as far as is known": {
			Handover{DrainState: AckUncertain, Assignment: AssignedDraining, Version: "5"}, ReadLive,
		},
		"sent, withdrawn as far as is known": {
			Handover{DrainState: AckUncertain, Assignment: AssignedHere, Version: "6"}, ReadLive,
		},
		"sent, not to be seen": {Handover{DrainState: AckUncertain}, ReadLive},

		"acknowledged, not shown":   {Handover{DrainState: AckUnseen, Assignment: AssignedDraining}, DoNothing},
		"acknowledged, older shown": {Handover{DrainState: AckUnseen, Assignment: AssignedHere}, DoNothing},
		"acknowledged, shown":       {Handover{DrainState: AckUnseen}, ResumeAdmission},
	} {
		assert.Equal(t, test.want, test.NextAction(), name)
	}
}
