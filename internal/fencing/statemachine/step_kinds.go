package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Step is the next action of a controller: a [Write], [Look], [Read], [Call], [Act], [Release],
// [Wait], [SetFinalizer], [DropAnnotation] or [Delete].
type Step interface{ step() }

// Write replaces the status of the record by one update, with the resource version of the record
// that was the input.
type Write struct {
	Reason Reason
	Status v1alpha1.Status
}

// Look reads the Node and its Lease in kube-node-lease from the API server, not from a cache. Read
// the record with them, because a change of its annotations must be considered first.
type Look struct{}

// Read reads devices concurrently. A device that does not answer in time is unknown.
type Read struct{ Devices []string }

// Call sends a command to a device. The record already has it as the open operation of the device.
type Call struct {
	Device string
	Op     v1alpha1.Op
	begin  deadline
}

// Late reports whether the call must no longer start, because the node was read too long ago. Then
// decide again. Call it at the last moment.
func (c Call) Late(now clock.Reading) bool { return c.begin.passed(now) }

// Act executes a method of the cluster. Methods must be repeatable, because they are repeated after
// a crash.
type Act struct{ Method string }

// Commission is a method that no configuration has: it records at the Node which devices were proved
// to be its own.
const Commission = "commission"

// Release is a part of the release of the node's workloads.
type Release struct {
	Part ReleasePart
	// Storage restricts it to the pods that use the storage of these devices, which the node can no
	// longer reach.
	Storage []string
	begin   deadline
}

// Late reports whether nothing more may be deleted or tainted, because the proof is too old. Then
// return the progress and decide again. Call it before each request. A part that removes nothing is
// never late.
func (r Release) Late(now clock.Reading) bool {
	return (r.Part == Taint || r.Part == DeletePods) && r.begin.passed(now)
}

// ReleasePart is a part of the release.
type ReleasePart string

// Parts of a release.
const (
	// DeletePods lists the pods of the node, and deletes each one if it has the listed UID.
	DeletePods ReleasePart = "DeletePods"
	// Taint puts the out-of-service taint on the node, unless it has one.
	Taint ReleasePart = "Taint"
	// AwaitDetach counts the remaining pods and volume attachments.
	AwaitDetach ReleasePart = "AwaitDetach"
	// Untaint removes the out-of-service taint if it is ours, and reads the node to verify that. A
	// missing node has no taint.
	Untaint ReleasePart = "Untaint"
)

// Wait waits for the time For, or until the record, the node or the configuration has changed. If
// For is zero, it waits only for a change.
type Wait struct {
	For time.Duration
	Why string
	// Watch lists devices that may still go off after a command. Read them every few seconds, and
	// decide again when one of them reads off.
	Watch []string
	// Ahead lists the devices of the next commands. Read them at once and decide again. The
	// controller may skip that; they are then read after the wait.
	Ahead []string
	// Next lists the devices that will be read after the wait. The controller may prepare that.
	Next []string
}

// SetFinalizer adds or removes [v1alpha1.Finalizer], by an update with the resource version of the
// record.
type SetFinalizer struct{ Present bool }

// DropAnnotation removes an annotation by an update with the resource version of the record. An
// admin must set it again if it is still meant. Why is empty if the annotation took effect.
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

// deadline is a time before which something must start, because its preconditions are from then.
type deadline struct {
	from   clock.Reading
	within time.Duration
}

func (d deadline) passed(now clock.Reading) bool { return now.SinceAtMost(d.from) > d.within }
