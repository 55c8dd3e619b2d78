package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Step is one thing for a controller to do: a [Write], [Look], [Read], [Call], [Act], [Release],
// [Wait], [SetFinalizer], [DropAnnotation] or [Delete].
type Step interface{ step() }

// Write replaces the status of the record by one update of the status subresource, with the
// resource version of the record that was decided on.
type Write struct {
	Reason Reason
	Status v1alpha1.Status
}

// Look reads the node from the API server, not from a cache: the Node, and its Lease in
// kube-node-lease. The record has to be read with it: a change of its annotations is to be decided
// on first.
type Look struct{}

// Read asks devices for their state, all of them at once, each by a process of its own. What does
// not answer in time is unknown.
type Read struct{ Devices []string }

// Call sends a command to a device. It was written down as the open operation of the device before.
type Call struct {
	Device string
	Op     v1alpha1.Op
	begin  deadline
}

// Late says that the call must not begin any more, because the node was looked at too long ago:
// decide again. Ask in the last moment.
func (c Call) Late(now clock.Reading) bool { return c.begin.passed(now) }

// Act carries out a method of the cluster. Doing it once more must do no harm: after a crash it is
// done again.
type Act struct{ Method string }

// Names of the methods that the state machine asks for by itself.
const (
	MarkUnschedulable = "mark-unschedulable" // put the fence's own taint on the node
	MarkSchedulable   = "mark-schedulable"   // remove it
	DeleteNode        = "delete-node"        // delete the Node, if it has the UID of the record
	Commission        = "commission"         // write down at the Node which devices were proved to be its own
)

// Release is a part of the release of the node's workloads.
type Release struct {
	Part ReleasePart
	// Storage restricts it to the pods that use the storage of these devices, which the node cannot
	// reach any more.
	Storage []string
	begin   deadline
}

// Late says that nothing more may be deleted or tainted, because the proof is too old: return what
// was done, and decide again. Ask before each request. What takes nothing away is never late.
func (r Release) Late(now clock.Reading) bool {
	return (r.Part == Taint || r.Part == DeletePods) && r.begin.passed(now)
}

// ReleasePart is a part of the release.
type ReleasePart string

// The parts of the release.
const (
	// DeletePods lists the pods of the node and deletes them, each if it has the UID that was
	// listed.
	DeletePods ReleasePart = "DeletePods"
	// Taint puts the out-of-service taint on the node, unless there is one.
	Taint ReleasePart = "Taint"
	// AwaitDetach counts the pods that were listed and the volume attachments that are left.
	AwaitDetach ReleasePart = "AwaitDetach"
	// Untaint removes the out-of-service taint if it is ours, and reads the node to see that it is
	// gone. A node that is not there has none.
	Untaint ReleasePart = "Untaint"
)

// Wait is for when there is nothing to do for a while: decide again after For, or when the record,
// the node or the configuration has changed, whichever is first. Zero: only then.
type Wait struct {
	For time.Duration
	Why string
	// Watch are devices that were told to switch off and may do so yet. Read them every few
	// seconds, and decide again when one of them reads off.
	Watch []string
	// Ahead are devices that are commanded next. Read them at once and decide again, unless that is
	// to be spared: then they are read when the wait is over.
	Ahead []string
}

// SetFinalizer adds or removes [v1alpha1.Finalizer], by an update of the record with its resource
// version.
type SetFinalizer struct{ Present bool }

// DropAnnotation removes an annotation that an admin has to give again if it is still meant, by an
// update with the resource version. Why is empty if it was taken.
type DropAnnotation struct {
	Key string
	Why string
}

// Delete deletes the record, with its UID and resource version as preconditions.
type Delete struct{}

func (Write) step()          {}
func (Look) step()           {}
func (Read) step()           {}
func (Call) step()           {}
func (Act) step()            {}
func (Release) step()        {}
func (Wait) step()           {}
func (SetFinalizer) step()   {}
func (DropAnnotation) step() {}
func (Delete) step()         {}

// deadline is a time by when something has to begin, because what it rests on is of then.
type deadline struct {
	from   clock.Reading
	within time.Duration
}

func (d deadline) passed(now clock.Reading) bool { return now.SinceAtMost(d.from) > d.within }
