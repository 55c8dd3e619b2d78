package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeFence is the record of the fencing of one node, from the moment the node was seen failing to the moment it works
// again or was given up. A node that fails again after that continues in the same object with the next incident.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nf
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.node`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Retries",type=integer,JSONPath=`.status.retries`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Released",type=string,JSONPath=`.status.released`
// +kubebuilder:printcolumn:name="Hold",type=string,JSONPath=`.status.hold.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Node is the name of the node that is fenced. It never changes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="node is immutable"
	Node string `json:"node"`

	Status Status `json:"status,omitempty"`
}

// NodeFenceList is a list of NodeFences.
//
// +kubebuilder:object:root=true
type NodeFenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeFence `json:"items"`
}

// Status is everything that the controller knows of a fence. Only the controller writes it.
type Status struct {
	// NodeUID is the UID that the node had when it was seen failing. A node with another UID is another machine.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// BootID is the node's boot ID at that time: another one proves that the machine has started again.
	// +optional
	BootID string `json:"bootID,omitempty"`
	// ProviderID is the cloud provider's name for the machine at that time.
	// +optional
	ProviderID string `json:"providerID,omitempty"`

	// Incident counts the node's fences from 1. Annotations that act on a fence name it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Incident int64 `json:"incident,omitempty"`
	// Triggers are the conditions that asked for this fence; the first one started it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Triggers []Trigger `json:"triggers,omitempty"`

	// Phase is the exact place in the flow. Step and Status follow from it.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// +optional
	Step Step `json:"step,omitempty"`
	// +optional
	Status Stage `json:"status,omitempty"`
	// Retries counts the tries used up in the current step.
	// +optional
	Retries int32 `json:"retries,omitempty"`
	// Operations counts the commands that this incident has written down. The next one is numbered by it.
	// +optional
	Operations int32 `json:"operations,omitempty"`
	// Jobs names the last operations of this fence, also as the Jobs that carry them out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Jobs []string `json:"jobs,omitempty"`
	// Restarts counts how often the flow was started anew after an error.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`

	// Wait is the wait that is in progress.
	// +optional
	Wait *Wait `json:"wait,omitempty"`
	// Abort says why devices are restored; empty means after the release of the workloads.
	// +optional
	Abort Abort `json:"abort,omitempty"`

	// Devices are the power and fabric devices of this incident.
	// +optional
	// +listType=map
	// +listMapKey=device
	// +kubebuilder:validation:MaxItems=64
	Devices []Device `json:"devices,omitempty"`
	// Level is the level of power devices in use, counted from 1; 0 before the first.
	// +optional
	Level int32 `json:"level,omitempty"`
	// Evidence is what was read and confirmed, oldest first: for each device an entry for off and one for on, and one for what an
	// admin confirmed. Later readings join the entry of their device.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Evidence []Evidence `json:"evidence,omitempty"`

	// Verified says that the machine was proved to be without power, or that an admin confirmed it.
	// +optional
	Verified bool `json:"verified,omitempty"`
	// Released says how far the release of the node's workloads has come.
	// +optional
	Released Released `json:"released,omitempty"`
	// StorageReleased says how far the release of the pods has come whose storage the node cannot reach any more. Their devices are
	// switched on again only for a machine that has lost its power, or started anew, since.
	// +optional
	StorageReleased Released `json:"storageReleased,omitempty"`
	// DumpReleased says how far the release of the pods has come whose kernel has stopped and writes a dump. Their volumes come with the rest.
	// +optional
	DumpReleased Released `json:"dumpReleased,omitempty"`
	// Taints is what this fence put on the node.
	// +optional
	Taints Taints `json:"taints,omitempty"`
	// Pods counts what became of the node's pods; their names are in Events.
	// +optional
	Pods Pods `json:"pods,omitempty"`

	// Commission is set if this incident is not a fence, but a trial of the devices of a node that works.
	// +optional
	Commission *Commission `json:"commission,omitempty"`

	// Hold says why nothing happens now.
	// +optional
	Hold *Hold `json:"hold,omitempty"`
	// ConfigHash is the configuration that this incident is carried out with, from its first command on. A later change
	// of the configuration is for the next incident.
	// +optional
	ConfigHash string `json:"configHash,omitempty"`
	// Problems counts how often the node has failed within a time.
	// +optional
	Problems Problems `json:"problems,omitempty"`

	// History is a line for each earlier incident, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	History []string `json:"history,omitempty"`

	// Conditions are Complete, PoweredOff, Released, Paused, Stopped, DeviceSuspect, Returned and Denied.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Trigger is a condition of a node that asks for a fence, such as Ready being Unknown.
type Trigger struct {
	Type   string      `json:"type"`
	Status string      `json:"status"`
	Since  metav1.Time `json:"since"`
}

// Wait is a wait for comfort, such as the time a machine has for its boot. A process measures it by its own clock, and believes Since only of a
// wait that another one has begun: an error of a wall clock can only make that shorter, and each command is guarded by a look at the node just before it.
type Wait struct {
	Kind  WaitKind         `json:"kind"`
	Since metav1.MicroTime `json:"since"`
}

// Device is a power or fabric device of a machine, and what this incident did with it.
type Device struct {
	// Device is its agent, address and plug.
	// +kubebuilder:validation:MinLength=1
	Device string `json:"device"`
	// Level is the level of power devices it belongs to, from 1; 0 is a device of the isolation step.
	Level int32 `json:"level"`
	// +optional
	State DeviceState `json:"state,omitempty"`
	// Tries counts the commands to switch it off that were sent, or meant to be, and readings without an answer in their place.
	// +optional
	Tries int32 `json:"tries,omitempty"`
	// Restores counts the commands to switch it on again.
	// +optional
	Restores int32 `json:"restores,omitempty"`
	// Touched says that a command to switch it off was written down in this incident, so one may have been sent.
	// +optional
	Touched bool `json:"touched,omitempty"`
	// SeenOff says that it was read off after that: it is never switched off again in this incident.
	// +optional
	SeenOff bool `json:"seenOff,omitempty"`
	// Op is the command that was written down and whose outcome has not been read yet.
	// +optional
	Op *Op `json:"op,omitempty"`
}

// Op is a command to a device, written down before it is sent.
type Op struct {
	ID     string   `json:"id"`
	Action OpAction `json:"action"`
	Seq    int32    `json:"seq"`
	// DeadlineSeconds is how long the call may take, in seconds.
	DeadlineSeconds int32 `json:"deadlineSeconds"`
}

// Evidence is a proof of the state of a device.
type Evidence struct {
	// Op is the ID of the command it belongs to; empty for a reading without one.
	// +optional
	Op     string `json:"op,omitempty"`
	Device string `json:"device"`
	// Readings are what the device said: the first two, and the last two after them.
	// +listType=atomic
	Readings []Reading      `json:"readings"`
	Source   EvidenceSource `json:"source"`
	// By names the field manager of a manual confirmation.
	// +optional
	By string `json:"by,omitempty"`
}

// Reading is one answer of a device.
type Reading struct {
	Power Power            `json:"power"`
	At    metav1.MicroTime `json:"at"`
}

// Taints is what a fence put on its node.
type Taints struct {
	// Fence says that our NoSchedule taint is on the node.
	// +optional
	Fence bool `json:"fence,omitempty"`
	// OutOfService says whose taint node.kubernetes.io/out-of-service is on the node. One that is not ours is never
	// changed and never removed.
	// +optional
	OutOfService TaintOwner `json:"outOfService,omitempty"`
}

// Pods counts what became of a node's pods.
type Pods struct {
	// +optional
	Listed int32 `json:"listed,omitempty"`
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
	// Refused counts evictions that a disruption budget refused.
	// +optional
	Refused int32 `json:"refused,omitempty"`
}

// Commission is a trial of the devices of a node that works.
type Commission struct {
	// Asked is the value of the annotation that has asked for it: the node's boot ID then, and perhaps more.
	Asked string `json:"asked"`
	// Failed says why it has proved nothing; empty as long as it may.
	// +optional
	Failed string `json:"failed,omitempty"`
}

// Hold says why a fence does not go on.
type Hold struct {
	Reason string `json:"reason"`
	// +optional
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}

// Problems counts failures of a node.
type Problems struct {
	// +optional
	Count int32 `json:"count,omitempty"`
	// Starts are when devices of the node began to be switched off, oldest first, over all incidents.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Starts []metav1.MicroTime `json:"starts,omitempty"`
	// WindowStart is when the first of them was.
	// +optional
	WindowStart *metav1.Time `json:"windowStart,omitempty"`
}
