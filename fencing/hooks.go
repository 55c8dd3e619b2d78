package fencing

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// Hooks are callbacks. They are called synchronously and possibly concurrently, by the goroutines
// of fences and watches. They must not block or change their arguments.
type Hooks struct {
	// OnTransition is called after a status was written. The reason names the transition, such as
	// PowerWaitOver. It is also the reason of the Event.
	OnTransition func(fence *v1alpha1.NodeFence, reason string)
	// OnRecord is called with each new or changed record that this process reads, including those
	// that exist when Run begins.
	OnRecord func(fence *v1alpha1.NodeFence)
	// OnForgotten is called when the record of a node is gone. It is also called with each node
	// that has one when Run ends, because this process then no longer knows.
	OnForgotten func(node string)
	// OnBlocked is called when a fence starts to wait for something other than a known time: an
	// admin, the policy or a configuration.
	OnBlocked func(node string, hold v1alpha1.Hold)
	// OnCommand is called after a command to a device has ended. Its error does not show whether
	// the device was switched.
	OnCommand func(node, device string, action agent.Action, took time.Duration, err error)
	// OnReading is called after a device was read.
	OnReading func(node, device string, power agent.Power, took time.Duration)
	// OnDecision is called with each decision about a node.
	OnDecision func(node string, decision Decision)
	// OnCommission is called when a commission has ended, with nil or the reason of the failure. A
	// commission that was given up may be reported a second time as failed, when its node is back.
	OnCommission func(node string, err error)
	// OnCheck is called after the devices of a node were checked, with nil or the reason why the
	// node cannot be fenced.
	OnCheck func(node string, err error)
	// OnConfiguration is called when the controller first knows whether any node has a usable
	// configuration, and when that changes. The error is nil, or has the problems of all nodes. If
	// no node has one when Run ends, it is called with nil, because this process then no longer
	// knows.
	OnConfiguration func(err error)
	// OnFenceReady is called after the condition FenceReady of a node was changed, with nil or the
	// reason why the node cannot be fenced. For a node without the condition it is called only if
	// the new status is not True.
	OnFenceReady func(node string, err error)
}
