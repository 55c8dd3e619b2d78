package policy

import "time"

// Status is the status of a condition. Every value except True and False is unknown.
type Status string

// As in Kubernetes, with Missing if there is no condition.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
	Missing Status = ""
)

// Fence is the state of a node's fence, as far as other fences depend on it.
type Fence int

const (
	// FenceNone is no fence, or one that succeeded.
	FenceNone Fence = iota
	// FenceQueued is a fence that has not switched any device.
	FenceQueued
	// FenceActive is a fence from its first recorded command to a device until all its devices are
	// on again or are left off. It takes a slot of [Limits].MaxConcurrent. Unknown values count as
	// active.
	FenceActive
	// FenceBooting is a fence whose machine was switched on again and is not back yet, or is being
	// recovered.
	FenceBooting
	// FenceGivenUp is a fence that failed.
	FenceGivenUp
)

func (f Fence) slot() bool {
	return f != FenceNone && f != FenceQueued && f != FenceBooting && f != FenceGivenUp
}

// NotSeen is the age of an event that was never seen.
const NotSeen time.Duration = -1

// NodeFacts are the facts about a node. Durations are measured by the clock of the process that
// decides, from its own observations, not from timestamps of others. Unknown facts never allow a
// fence: negative durations, statuses other than True and False, and zero values.
type NodeFacts struct {
	Name string
	UID  string
	// Machine is what the node reports about its machine.
	Machine Machine
	// Zone is the failure domain, as in topology.kubernetes.io/zone. Nodes without a zone form one
	// zone.
	Zone         string
	ControlPlane bool
	// Selected is set if this node may be fenced.
	Selected bool
	// Excluded is set if the node is excluded by a label.
	Excluded bool
	// Deleting is set if the Node has a deletion timestamp, AutoscalerTaint if an autoscaler has
	// marked it for removal, Gone if only its fence exists.
	Deleting        bool
	AutoscalerTaint bool
	Gone            bool
	// EverReady reports whether this Node, by its UID, was ever Ready. A node that never was Ready
	// is joining. If that is unknown, the node counts, but is not fenced.
	EverReady Status
	Ready     Status
	// NotReadyFor is how long Ready has not been True; 0 if it is True. FailingFor is how long any
	// condition that starts a fence has lasted, Ready included; 0 if there is none. Negative if
	// unknown.
	NotReadyFor time.Duration
	FailingFor  time.Duration
	// LeaseSilentFor is the time since the last renewal of the node's Lease, or [NotSeen].
	LeaseSilentFor time.Duration
	// FenceReady reports whether the last check has found the devices usable. It is True if there
	// are no devices to check.
	FenceReady Status
	// NotFenceable describes the problem that this check has found.
	NotFenceable string
	// StorageLost is set if the node last reported that it cannot reach its storage.
	StorageLost bool
	Fence       Fence
	Past        Past
	// Starting is set if a fence of this node may start, and no record has that start yet. It
	// counts as a start.
	Starting bool
}

// Past has the outcome of the last fence of a node.
type Past struct {
	// Began is when it began to switch devices.
	Began   time.Time
	Outcome Outcome
}

// Outcome is what a fence has done for its node.
type Outcome int

const (
	// OutcomeUnknown is that of a fence that is under way, was stopped, or never was.
	OutcomeUnknown Outcome = iota
	// OutcomeReturned means that the node has worked again.
	OutcomeReturned
	// OutcomeStranded means that the machine got its power back, but the node did not return in
	// time.
	OutcomeStranded
)

// member reports whether n is one of the nodes that are counted. Only a limited share of them may
// fail.
func (n *NodeFacts) member() bool {
	return n.Selected && !n.Excluded && !n.Deleting && !n.AutoscalerTaint && !n.Gone && n.EverReady != False
}

// unhealthy includes nodes that are about to become unhealthy. Otherwise a storm would look like
// single losses.
func (n *NodeFacts) unhealthy(silence time.Duration) bool {
	return n.Ready != True || n.FailingFor != 0 || n.NotReadyFor != 0 || n.silent(silence) || n.Fence != FenceNone &&
		n.Fence != FenceGivenUp
}

func (n *NodeFacts) silent(silence time.Duration) bool {
	return n.LeaseSilentFor < 0 || n.LeaseSilentFor > silence
}

// Start is the start of a fence that switches devices.
type Start struct {
	Node string
	At   time.Time
}

// View has the known facts about all nodes at one time.
type View struct {
	Now time.Time
	// Nodes are all nodes of the cluster, including those that may not be fenced, and the fences of
	// missing Nodes.
	Nodes []NodeFacts
	// Starts are the starts in records, at least those of the last hour. A start that was in an
	// earlier view may be missing.
	Starts []Start
}

// Act is the action to decide about.
type Act int

const (
	// PowerOff switches off machines.
	PowerOff Act = iota
	// SwitchOff switches off other devices, such as ports of a storage fabric.
	SwitchOff
	// Isolate changes only objects of the Kubernetes API, reversibly, such as taints.
	Isolate
	// Commission switches off the machine of a working node at the request of an administrator.
	Commission
)

// Target is the node to decide about.
type Target struct {
	Name string
	// UID of the Node when it was found failing. Required.
	UID string
	Act Act
	// Trigger is the type of the condition that started the fence. Default: Ready.
	Trigger string
	// NotReadyFor overrides that of [Limits] for this node, if it is positive.
	NotReadyFor time.Duration
	// Switched is set if this incident has recorded a command to a device. Limits on starts do not
	// apply to it.
	Switched bool
	// Devices is the number of devices that can cut this node's power. If it is 0, WithoutPower
	// must be set because the configuration needs no device.
	Devices      int
	WithoutPower bool
	// ConfigErrors are the errors in its configuration.
	ConfigErrors []string
	// Unproved lists the devices that require a commission before use and were not commissioned.
	Unproved []string
	// Repeating is set if this fence was held for [ReasonRepeats] before. It stays held unless
	// Restarted is set, because an administrator has started this incident.
	Repeating bool
	Restarted bool
}

// Self is the process that decides.
type Self struct {
	// Node that it runs on. Required, unless OutsideCluster is set because it runs outside of the
	// cluster.
	Node           string
	OutsideCluster bool
	// LastAPIWrite is the time before the last request to write that the API server has confirmed,
	// such as the renewal of the process's lease.
	LastAPIWrite time.Time
}
