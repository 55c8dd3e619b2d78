package fencing

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// Hooks are told what happens. They are called synchronously, by the goroutine of the fence that they are about or of a watch, so several may be called at the same
// time: they must not block. What they are given is not to be changed.
type Hooks struct {
	// OnTransition is called after a status was written. The reason is the name of the transition, such as PowerWaitOver; see package
	// automaton.
	OnTransition func(fence *v1alpha1.NodeFence, reason string)
	// OnRecord is called when a record is seen that is new to this process, or has changed, whoever has written it: also when Run begins.
	OnRecord func(fence *v1alpha1.NodeFence)
	// OnForgotten is called when the record of a node is gone.
	OnForgotten func(node string)
	// OnBlocked is called when a fence begins to wait for something that is not a time: an admin, a policy, a configuration.
	OnBlocked func(node string, hold v1alpha1.Hold)
	// OnCommand is called after a command to a device has ended, whatever it has done.
	OnCommand func(node, device string, action v1alpha1.OpAction, took time.Duration, err error)
	// OnReading is called after a device was read.
	OnReading func(node, device string, power v1alpha1.Power, took time.Duration)
	// OnDecision is called when the policy has been asked about a node.
	OnDecision func(node string, decision Decision)
	// OnCommission is called when a commission has ended: nil, or why it has proved nothing. One that was given up may be said to have failed once more, when
	// its node is back.
	OnCommission func(node string, err error)
	// OnCheck is called when the devices of a node were checked: nil, or what keeps it from being fenced.
	OnCheck func(node string, err error)
	// OnConfiguration is called when it is known for the first time whether any node that may be fenced has
	// a configuration that can be used, and when that changes: nil, or what is wrong with all of them.
	// When Run ends while none has, it is called with nil: another process has to know from then on.
	OnConfiguration func(err error)
	// OnFenceReady is called after the condition FenceReady of a node was written that was another before: nil, or what keeps the node from being
	// fenced. Of a node that had none it is called if it is not True.
	OnFenceReady func(node string, err error)
}
