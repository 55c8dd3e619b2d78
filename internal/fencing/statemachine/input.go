package statemachine

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Input is everything that a decision depends on.
type Input struct {
	// Fence is the record as it was read. It is not changed.
	Fence *v1alpha1.NodeFence
	// Plan is the configuration of the node. If Unresolved is set, it is the reason why there is no
	// plan, and Plan has defaults only. No configured action is done then, and no device is given up.
	Plan       nodeplan.Plan
	Unresolved string
	// Known has the keys of devices that were read on with this very configuration while the node was
	// Ready. Another device that reads off before it is commanded may belong to any machine, and
	// proves nothing.
	Known map[string]bool
	// FenceReadyNodes allows taking the power of a Ready node if the condition that started the fence
	// requires it.
	FenceReadyNodes bool
	Policy          Policy
	// Trigger is the condition for which the node should be fenced now, or nil.
	Trigger *v1alpha1.Trigger
	// Dump is a time at or before the arrival of the last dump message from this node. Zero if this
	// process has received no message.
	Dump clock.Reading
	// Trouble is why this process makes no progress with its step. Its Reason is empty if it does,
	// or has not tried for long.
	Trouble Trouble
	// Memory has what this process has seen and done.
	Memory Memory
	// Now is read after everything else.
	Now clock.Reading
}

// Trouble is what a record reports about a step that keeps failing.
type Trouble struct{ Reason, Message string }

// Policy has the decisions of the policy about a fence. Nil means that the controller has not asked
// yet; it does before it executes a step that needs the permission.
type Policy struct {
	// Admit applies until the first command to a device is recorded.
	Admit *policy.Decision
	// Continue applies before every command that switches something off.
	Continue *policy.Decision
}

// Node is a node as a [Look] found it.
type Node struct {
	// Missing is set if there is no Node of that name.
	Missing bool
	UID     types.UID
	// Leaving is set if the Node is being deleted or marked for removal by an autoscaler.
	Leaving bool
	// Ready is set if its condition Ready is True.
	Ready bool
	// Failing is set while the condition that started the fence holds.
	Failing bool
	// Renewal is a value that changes with each renewal of its Lease. It is only compared.
	Renewal string
	// Cordoned is set if spec.unschedulable is.
	Cordoned bool
	// BootID and ProviderID are those of its status and spec.
	BootID, ProviderID string
	// OutOfService is the owner of its out-of-service taint.
	OutOfService v1alpha1.TaintOwner
}
