package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Progress is how far an incident is: what the next controller needs to continue it. It is a part
// of the status of a NodeFence.
type Progress struct {
	// +optional
	Step Step `json:"step,omitempty"`
	// +optional
	Status Stage `json:"status,omitempty"`
	// Retries counts the failed tries of the current step.
	//
	// +optional
	Retries int32 `json:"retries,omitempty"`
	// Operations counts the commands that were recorded in this incident. It numbers the next
	// command.
	//
	// +optional
	Operations int32 `json:"operations,omitempty"`
	// Jobs lists the IDs of the last operations of this fence. Jobs that execute them have these
	// names.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Jobs []string `json:"jobs,omitempty"`
	// Restarts counts how often the fence has restarted after an error.
	//
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// Wait is the wait in progress.
	//
	// +optional
	Wait *Wait `json:"wait,omitempty"`
	// Abort is the reason why devices are restored before the workloads were released. Empty: the
	// workloads were released.
	//
	// +optional
	Abort Abort `json:"abort,omitempty"`
	// Devices are the power and fabric devices of this incident.
	//
	// +optional
	// +listType=map
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	Devices []Device `json:"devices,omitempty"`
	// Level is the level of power devices in use, from 1. 0: none yet.
	//
	// +optional
	Level int32 `json:"level,omitempty"`
	// Verified is set when the machine is proved to be off, or an admin has confirmed it.
	//
	// +optional
	Verified bool `json:"verified,omitempty"`
	// Released is the progress of the release of the node's workloads.
	//
	// +optional
	Released Released `json:"released,omitempty"`
	// StorageReleased is the progress of the release of pods whose storage the node cannot reach
	// any more. Devices of the isolation step are then switched on again only after the machine has
	// lost its power or rebooted.
	//
	// +optional
	StorageReleased Released `json:"storageReleased,omitempty"`
	// DumpReleased is the progress of the release of pods on a node whose kernel has stopped and
	// writes a dump. Their volumes are released with the rest.
	//
	// +optional
	DumpReleased Released `json:"dumpReleased,omitempty"`
	// Taints are the taints that this fence has put on the node.
	//
	// +optional
	Taints Taints `json:"taints,omitempty"`
	// Pods counts the pods of the node. Events have their names.
	//
	// +optional
	Pods Pods `json:"pods,omitempty"`
	// Commission is set if this incident is not a fence, but a test of the devices of a working
	// node.
	//
	// +optional
	Commission *Commission `json:"commission,omitempty"`
	// ConfigHash identifies the configuration that this incident uses from its first command on. A
	// later change takes effect in the next incident.
	//
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// Problems counts the failures of the node.
	//
	// +optional
	Problems Problems `json:"problems,omitempty"`
}

// Wait is a wait that does not affect safety, such as the time for a boot. Each process measures it
// by its own clock. It uses Since only for a wait that another process has started, so that a wrong
// wall clock can only shorten the wait. The node is read before each command in any case.
type Wait struct {
	Kind  WaitKind         `json:"kind"`
	Since metav1.MicroTime `json:"since"`
}

// Device is a power or fabric device of a machine, and what this incident has done with it.
type Device struct {
	// Device names its agent, address and plug.
	//
	// +kubebuilder:validation:MinLength=1
	Device string `json:"device"`
	// Level is its level of power devices, from 1. 0: a device of the isolation step.
	Level int32 `json:"level"`
	// +optional
	State DeviceState `json:"state,omitempty"`
	// Tries counts the commands to switch it off, sent or cancelled, and readings that failed in
	// their place.
	//
	// +optional
	Tries int32 `json:"tries,omitempty"`
	// Restores counts the commands to switch it on again.
	//
	// +optional
	Restores int32 `json:"restores,omitempty"`
	// Touched is set when a command to switch it off was recorded in this incident, so that one may
	// have been sent.
	//
	// +optional
	Touched bool `json:"touched,omitempty"`
	// FoundOff is set when it was read off before the first command: an operator or another controller
	// had switched it off. It is not switched on again.
	//
	// +optional
	FoundOff bool `json:"foundOff,omitempty"`
	// SeenOff is set when it was read off after that. It is not switched off again in this
	// incident.
	//
	// +optional
	SeenOff bool `json:"seenOff,omitempty"`
	// Op is a recorded command whose effect has not been read yet.
	//
	// +optional
	Op *Op `json:"op,omitempty"`
}

// Op is a command to a device. It is recorded before it is sent.
type Op struct {
	ID string `json:"id"`
	// +kubebuilder:validation:Enum=off;on
	Action agent.Action `json:"action"`
	Seq    int32        `json:"seq"`
	// DeadlineSeconds is the maximum duration of the call, in seconds.
	DeadlineSeconds int32 `json:"deadlineSeconds"`
}

// Taints are the taints that a fence has put on its node.
type Taints struct {
	// Fence is set while the NoSchedule taint of the fence is on the node.
	//
	// +optional
	Fence bool `json:"fence,omitempty"`
	// OutOfService is the owner of the taint node.kubernetes.io/out-of-service on the node. A
	// foreign taint is never changed or removed.
	//
	// +optional
	OutOfService TaintOwner `json:"outOfService,omitempty"`
}

// Pods counts the pods of a node.
type Pods struct {
	// +optional
	Listed int32 `json:"listed,omitempty"`
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
	// Refused counts evictions that a disruption budget has refused.
	//
	// +optional
	Refused int32 `json:"refused,omitempty"`
}

// Commission is a test of the devices of a working node.
type Commission struct {
	// Asked is the value of the annotation that requested it. It starts with the node's boot ID at
	// that time.
	Asked string `json:"asked"`
	// Failed is the reason why it proves nothing. Empty: it has not failed.
	//
	// +optional
	Failed string `json:"failed,omitempty"`
}

// Problems counts failures of a node.
type Problems struct {
	// +optional
	Count int32 `json:"count,omitempty"`
	// Starts are the times at which the fences of the node started to switch devices off, oldest
	// first, over all incidents.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Starts []metav1.MicroTime `json:"starts,omitempty"`
	// WindowStart is the first of Starts.
	//
	// +optional
	WindowStart *metav1.Time `json:"windowStart,omitempty"`
}
