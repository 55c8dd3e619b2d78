package statemachine

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Input is all that a decision rests on.
type Input struct {
	// Fence is the record as it was read. It is not changed.
	Fence *v1alpha1.NodeFence
	// Plan is what the node's configuration resolved to.
	Plan Plan
	// Policy is what the rules of the cluster say of this fence now.
	Policy Policy
	// Trigger is the condition for which the node should be fenced now; nil: none.
	Trigger *v1alpha1.Trigger
	// Dump is when the last message of a kernel of this very node came that says that it writes a
	// dump, or earlier: its arrival, and not when it was read. Zero: none came to this process.
	Dump clock.Reading
	// Memory is what this process has seen and done.
	Memory Memory
	// Now is read after everything else.
	Now clock.Reading
}

// Policy is what the rules of the cluster say of a fence.
type Policy struct {
	// Admit is asked until the first command to a device is written down.
	Admit Answer
	// Continue is asked before every command that switches something off.
	Continue Answer
}

// Answer is what the rules say.
type Answer struct {
	Verdict Verdict
	// Reason is a word in CamelCase, Message a sentence.
	Reason, Message string
	// After is in what time to ask again; zero: when something has changed.
	After time.Duration
}

// Verdict is what the rules allow.
type Verdict string

// The verdicts.
const (
	Allow    Verdict = ""     // go on
	Postpone Verdict = "wait" // for a time that is known
	Hold     Verdict = "hold" // until something changes
	Deny     Verdict = "deny" // end this fence
)

// Node is a node as one [Look] found it.
type Node struct {
	// Missing: there is none of that name.
	Missing bool
	UID     types.UID
	// Leaving: it is being deleted, or an autoscaler has marked it for that.
	Leaving bool
	// Ready is its condition.
	Ready bool
	// Failing says that the condition which started the fence still holds.
	Failing bool
	// Renewal is whatever is new after each renewal of its Lease, such as the renew time. It is
	// only compared.
	Renewal string
	// Cordoned is that an admin keeps new pods from it.
	Cordoned bool
	// BootID and ProviderID are those of its status and spec.
	BootID, ProviderID string
	// OutOfService says whose taint of that kind is on it.
	OutOfService v1alpha1.TaintOwner
}
