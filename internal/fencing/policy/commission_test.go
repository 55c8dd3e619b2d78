package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// commission asks about a node that works.
func commission(in *policy.Input) {
	*node(in, "w0") = healthy("w0")
	in.Target.Act = policy.Commission
}

// A node that works may be commissioned, when another machine could be off; what is about fences
// does not matter.
func TestCommission(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *policy.Input)
		reason string
	}{
		"works": {func(*policy.Input) {}, policy.ReasonAllowed},
		"is not Ready": {
			func(in *policy.Input) { node(in, "w0").Ready = policy.False },
			policy.ReasonFailing,
		},
		"fails in something else": {
			func(in *policy.Input) { node(in, "w0").FailingFor = 1 },
			policy.ReasonFailing,
		},
		"is not Ready for a moment": {
			func(in *policy.Input) { node(in, "w0").NotReadyFor = 1 },
			policy.ReasonFailing,
		},
		"is silent": {
			func(in *policy.Input) { node(in, "w0").LeaseSilentFor = time.Minute },
			policy.ReasonFailing,
		},
		"was not watched yet": {func(in *policy.Input) {
			node(in, "w0").LeaseSilentFor = policy.NotSeen
		}, policy.ReasonFailing},
		"goes away because it is tried": {func(in *policy.Input) {
			in.Target.Switched = true
			fail(node(in, "w0"), time.Minute)
		}, policy.ReasonAllowed},
		"was fenced again and again": {func(in *policy.Input) {
			started(in, "w0", time.Minute, 2*time.Minute, 3*time.Minute)
		}, policy.ReasonAllowed},
		"many were fenced": {
			func(in *policy.Input) { started(in, "w1", minutes(1, 20)...) },
			policy.ReasonAllowed,
		},
		"was not commissioned": {
			func(in *policy.Input) { in.Target.Unproved = []string{"bmc"} },
			policy.ReasonAllowed,
		},
		"has no device": {
			func(in *policy.Input) { in.Target.Devices = 0 },
			policy.ReasonNotConfigured,
		},
		"has no device, and needs none": {func(in *policy.Input) {
			in.Target.Devices, in.Target.WithoutPower = 0, true
		}, policy.ReasonNotConfigured},
		"has devices that are not checked": {
			func(in *policy.Input) { node(in, "w0").FenceReady = policy.Missing },
			policy.ReasonNotConfigured,
		},
		"another machine is off": {
			func(in *policy.Input) { node(in, "w1").Fence = policy.FenceActive },
			policy.ReasonQueue,
		},
		"is the controller's": {func(in *policy.Input) { in.Self.Node = "w0" }, policy.ReasonOwnHost},
		"is excluded": {
			func(in *policy.Input) { node(in, "w0").Excluded = true },
			policy.ReasonExcluded,
		},
		"the others were not watched for long": {
			func(in *policy.Input) { in.State = policy.State{} },
			policy.ReasonOwnPartition,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := sample()
			commission(&in)
			c.change(&in)
			assert.Equal(t, c.reason, policy.Decide(in).Reason, policy.Decide(in).Message)
		})
	}
}

// A fence of a node that was not commissioned is held, if that is asked for, until it has begun.
func TestUnprovedDevicesHoldAFence(t *testing.T) {
	for _, act := range []policy.Act{policy.PowerOff, policy.SwitchOff, policy.Isolate} {
		in := sample()
		in.Target.Act, in.Target.Unproved = act, []string{"bmc/1"}
		d := policy.Decide(in)
		assert.Equal(t, policy.ReasonNotConfigured, d.Reason)
		assert.Contains(t, d.Message, "bmc/1")
		in.Target.Switched = true
		assert.Equal(t, policy.Allow, policy.Decide(in).Verdict)
	}
}
