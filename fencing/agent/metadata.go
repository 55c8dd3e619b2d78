package agent

import "time"

// Metadata describes a fence agent. It has the shape of the metadata of ClusterLabs' agents.
type Metadata struct {
	// Name of the agent, such as fence_ipmilan.
	Name string
	// Parameters that the agent takes, deprecated ones included.
	Parameters []ParameterSpec
	// Actions that the agent supports. If any are listed, off, on and status must be among them.
	// Empty if unknown.
	Actions []string
	// MinSettle is the shortest time to wait until an accepted command has taken effect: the time
	// that the slowest device needs, plus 10 s. 0 if unknown; then 10 s is used.
	MinSettle time.Duration
	// OffIsProof is set if the agent reads off only what cannot continue: the machine has lost its
	// power, the virtual machine has ended, or the port is closed. If it is not set, a suspended
	// machine may also read off, so that off proves something only after the fence's own command
	// was sent to a machine that was on.
	OffIsProof bool
}

// ParameterSpec describes one parameter of a fence agent.
type ParameterSpec struct {
	// Name of the parameter.
	Name string
	// Obsoletes lists former names. They may also be listed as parameters of their own; both set
	// the same value.
	Obsoletes []string
	// Deprecated is set if there is a newer name.
	Deprecated bool
	// Type of the value. An unknown type is treated as TypeString.
	Type ParameterType
	// Required is set if the agent fails without the parameter.
	Required bool
	// Default is used by the agent if the parameter is not set. The controller never relies on the
	// default of a parameter that selects the plug, such as address and plug.
	Default string
	// Options of a TypeSelect.
	Options []string
	// ShortDesc is a description for people.
	ShortDesc string
}

// ParameterType is the content type of a parameter.
type ParameterType string

// Types of parameters.
const (
	TypeString  ParameterType = "string"
	TypeBoolean ParameterType = "boolean" // 1, yes, on, true, 0, no, off or false
	TypeInteger ParameterType = "integer"
	TypeSecond  ParameterType = "second" // whole seconds
	TypeSelect  ParameterType = "select" // one of Options
)
