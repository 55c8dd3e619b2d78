package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// NodeFence is the record of the fences of one node. A fence lasts from the first failure of the
// node until the node works again or the fence is given up. If the node fails again later, the same
// object continues with the next incident.
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

	// Node is the name of the fenced node. It never changes.
	//
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

// Status is everything that the controller knows about a fence. Only the controller writes it.
type Status struct {
	// NodeUID is the UID of the node when it was seen failing. A node with another UID is another
	// machine.
	//
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty"`
	// BootID is the boot ID of the node at that time. Another boot ID proves that the machine has
	// rebooted.
	//
	// +optional
	BootID string `json:"bootID,omitempty"`
	// ProviderID is the provider ID of the node at that time.
	//
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// Incident counts the fences of the node, from 1. Annotations refer to it.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Incident int64 `json:"incident,omitempty"`
	// Triggers are the conditions that require this fence. The first one started it.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Triggers []Trigger `json:"triggers,omitempty"`
	// Phase is the exact state of the fence. Step and Status are derived from it.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Progress is what the controller needs to continue after a restart.
	Progress `json:",inline"`

	// Evidence lists what was read and confirmed, oldest first. Each device has one entry for off
	// and one for on; later readings are added to it. The confirmation of an admin has an entry
	// too.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Evidence []Evidence `json:"evidence,omitempty"`
	// Hold is the reason why the fence is blocked.
	//
	// +optional
	Hold *Hold `json:"hold,omitempty"`
	// History has a line for each earlier incident, oldest first.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	History []string `json:"history,omitempty"`
	// Conditions are Complete, PoweredOff, Released, Paused, Stopped, DeviceSuspect, Returned and
	// Denied.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Trigger is a condition of a node that requires a fence, such as Ready Unknown.
type Trigger struct {
	Type   string      `json:"type"`
	Status string      `json:"status"`
	Since  metav1.Time `json:"since"`
}

// Evidence is a proof of the state of a device.
type Evidence struct {
	// Op is the ID of the command before the readings. Empty: no command.
	//
	// +optional
	Op     string `json:"op,omitempty"`
	Device string `json:"device"`
	// Readings are the first two and the last two readings of the device.
	//
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	Readings []Reading      `json:"readings"`
	Source   EvidenceSource `json:"source"`
	// By is the field manager of a manual confirmation.
	//
	// +optional
	By string `json:"by,omitempty"`
}

// Reading is one answer of a device.
type Reading struct {
	// +kubebuilder:validation:Enum=on;off;unknown
	Power agent.Power      `json:"power"`
	At    metav1.MicroTime `json:"at"`
}

// Hold is the reason why a fence is blocked.
type Hold struct {
	Reason string `json:"reason"`
	// +optional
	Message string      `json:"message,omitempty"`
	Since   metav1.Time `json:"since"`
}
