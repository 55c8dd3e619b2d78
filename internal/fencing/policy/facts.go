package policy

import (
	"fmt"
	"time"
)

// Status is that of a condition. Whatever is neither True nor False is not known.
type Status string

// As in Kubernetes; no condition at all is Missing.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
	Missing Status = ""
)

// Fence is how far the fence of a node is, as far as others have to know.
type Fence int

const (
	// FenceNone is no fence, or one that has ended well.
	FenceNone Fence = iota
	// FenceQueued is a fence that has not switched any device: detected, or isolated within the
	// cluster only.
	FenceQueued
	// FenceActive is a fence from its first intent to switch a device until all it has switched is
	// back on, or is left off. It has a slot of [Limits].MaxConcurrent. A value that is not in this
	// list counts as active.
	FenceActive
	// FenceBooting is a machine that has been switched on again and is not back yet, or is being
	// recovered.
	FenceBooting
	// FenceGivenUp is a fence that has ended without success.
	FenceGivenUp
)

// String is the name of the constant, without "Fence".
func (f Fence) String() string {
	switch f {
	case FenceNone:
		return "None"
	case FenceQueued:
		return "Queued"
	case FenceActive:
		return "Active"
	case FenceBooting:
		return "Booting"
	case FenceGivenUp:
		return "GivenUp"
	}
	return fmt.Sprintf("Fence(%d)", int(f))
}

func (f Fence) slot() bool {
	return f != FenceNone && f != FenceQueued && f != FenceBooting && f != FenceGivenUp
}

// NotSeen is a duration since something that was never seen.
const NotSeen time.Duration = -1

// NodeFacts is what is known of a node. All durations are measured by the clock of whoever decides,
// from what it has seen itself: times that others wrote are of other clocks. Facts that are not
// known (negative durations, statuses other than True and False, zero values) are never a reason to
// allow.
type NodeFacts struct {
	Name string
	UID  string
	// Zone is the failure domain, as by topology.kubernetes.io/zone. Nodes without one form a zone
	// together.
	Zone         string
	ControlPlane bool
	// Selected says that this node is one to be fenced.
	Selected bool
	// Excluded says that somebody has taken it out by a label.
	Excluded bool
	// Deleting says that the Node has a deletion timestamp, AutoscalerTaint that it has the taint
	// of an autoscaler that is about to remove it. Gone says that there is no such Node any more,
	// only the fence of it.
	Deleting        bool
	AutoscalerTaint bool
	Gone            bool
	// EverReady says whether this Node, by its UID, has been Ready at any time. If it never was, it
	// is still joining. If that is not known, it counts among the others, but is not fenced.
	EverReady Status
	Ready     Status
	// NotReadyFor is how long Ready has not been True, 0 if it is. FailingFor is how long any
	// condition has been there that fences are started for, be it that Ready is not True or
	// another: 0 if there is none. Negative if not known.
	NotReadyFor time.Duration
	FailingFor  time.Duration
	// LeaseSilentFor is how long ago the node's Lease was last seen to be renewed, [NotSeen] if it
	// never was.
	LeaseSilentFor time.Duration
	// FenceReady says whether the last check of the node's devices has found them usable. True if
	// there are none to check.
	FenceReady Status
	// NotFenceable is, for people, what that check has found wrong.
	NotFenceable string
	// StorageLost says that the node itself last reported that it cannot reach its storage.
	StorageLost bool
	Fence       Fence
	// Starting says that a fence of this node was allowed to begin, and that its start is not in
	// any record yet: it is one start more.
	Starting bool
}

// member says whether n is one of the nodes of which a share may fail.
func (n *NodeFacts) member() bool {
	return n.Selected && !n.Excluded && !n.Deleting && !n.AutoscalerTaint && !n.Gone && n.EverReady != False
}

// unhealthy includes what is going to be: soon-unhealthy nodes have to count, or a storm would look
// like single losses.
func (n *NodeFacts) unhealthy(silence time.Duration) bool {
	return n.Ready != True || n.FailingFor != 0 || n.NotReadyFor != 0 || n.silent(silence) || n.Fence != FenceNone && n.Fence != FenceGivenUp
}

func (n *NodeFacts) silent(silence time.Duration) bool {
	return n.LeaseSilentFor < 0 || n.LeaseSilentFor > silence
}

// Start is that a fence began to switch devices.
type Start struct {
	Node string
	At   time.Time
}

// View is what is known of all nodes at one moment.
type View struct {
	Now time.Time
	// Nodes are all nodes of the cluster, also those that are not to be fenced, and the fences
	// whose Nodes are gone.
	Nodes []NodeFacts
	// Starts are those in the records of fences, at least of the last hour. It does not matter if
	// one that was given once is missing later.
	Starts []Start
}

// Act is what is asked for.
type Act int

const (
	// PowerOff switches off machines.
	PowerOff Act = iota
	// SwitchOff switches other devices off, such as ports of a storage fabric.
	SwitchOff
	// Isolate does only what Kubernetes' API can do and undo, such as a taint.
	Isolate
	// Commission switches off the machine of a node that works, because an administrator wants to
	// see that it can be.
	Commission
)

// Target is the node to decide about.
type Target struct {
	Name string
	// UID is that of the Node when it was found failing. Required.
	UID string
	Act Act
	// Trigger is the type of the condition that started the fence. Empty: Ready.
	Trigger string
	// NotReadyFor overrides that of [Limits] for this node, if it is positive.
	NotReadyFor time.Duration
	// Switched says that this incident has already had an intent to switch a device. What was begun
	// is not stopped half-way by what limits beginnings.
	Switched bool
	// Devices is how many devices can cut this node's power. Without any, it has to be
	// WithoutPower: configured to need none.
	Devices      int
	WithoutPower bool
	// ConfigErrors is what is wrong with its configuration.
	ConfigErrors []string
	// Unproved names the devices that have to be commissioned before they may be used, and were
	// not.
	Unproved []string
	// Repeating says that this fence was held for [ReasonRepeats] before: it stays so, until
	// Restarted says that an administrator has started this incident.
	Repeating bool
	Restarted bool
}

// Self is the process that decides.
type Self struct {
	// Node is where it runs. Required unless OutsideCluster says that it runs on none of the nodes.
	Node           string
	OutsideCluster bool
	// LastAPIWrite is when the API server last confirmed a write of this process, such as the
	// renewal of its lease: the time before that request was sent.
	LastAPIWrite time.Time
}
