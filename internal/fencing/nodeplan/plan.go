// Package nodeplan has the plan of the fence of a node, which devices it uses, in which order and
// for how long. Package nodeconfig reads it from ConfigMaps, and package statemachine carries it
// out.
package nodeplan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Plan is the configuration of one node.
type Plan struct {
	// Node is the name of the node.
	Node string
	// Object is the name of the ConfigMap, or [BuiltIn].
	Object string
	// Isolation has the methods of the isolation step, in order. The fence's own taint comes first.
	Isolation Level
	// PowerManagement has levels. Each level cuts all feeds of the machine, and is used when the one
	// before it cannot prove that. Without levels, only an admin can confirm that the machine has no
	// power.
	PowerManagement []Level
	// Recovery has the methods for a node that is Ready again. The fence's own taint is removed
	// last.
	Recovery Level
	// PowerOn decides whether a machine is switched on again.
	PowerOn PowerOn

	// NotReadyFor is how long a node must fail before the fence starts.
	NotReadyFor time.Duration
	// PowerWait is how long an isolated node may take to return before it loses its power.
	PowerWait time.Duration
	// BootGrace is how long a machine may take to become Ready after it was switched on.
	BootGrace time.Duration
	// RestartDelay is how long a fence that has failed rests before it restarts.
	RestartDelay time.Duration
	// DetachTimeout is how long the release waits for volumes to be detached.
	DetachTimeout time.Duration
	// History is how long a record is kept after its end.
	History time.Duration
	// Retries bounds the tries of a step and the commands to a device, Restarts the restarts of the
	// fence after a failure.
	Retries, Restarts int32
	// Kdump releases the pods of a node whose kernel sends dump messages. The first command to
	// switch off then waits for the end of the dump, at most for KdumpTimeout.
	Kdump        bool
	KdumpTimeout time.Duration

	// Warnings do not prevent the fence.
	Warnings []error
	// Hash covers which plugs are switched off, in which order, and how. A fence that has begun
	// with one hash must not continue with another. Waits, bounds and methods of the cluster do not
	// count, so that they may change meanwhile. A password counts by its place in a Secret, not by
	// its value, and plain text does not count at all, because the hash is stored where others can
	// read it.
	Hash string
}

// Defaults returns a plan without methods.
func Defaults() Plan {
	return Plan{
		PowerOn:     Always,
		NotReadyFor: 30 * time.Second, PowerWait: 5 * time.Minute, BootGrace: 10 * time.Minute,
		RestartDelay: 30 * time.Second, DetachTimeout: time.Minute, KdumpTimeout: 5 * time.Minute,
		History: 24 * time.Hour, Retries: 3, Restarts: 1,
	}
}

// BuiltIn is the name of the configuration of nodes without a ConfigMap.
const BuiltIn = "built-in"

// PowerOn decides when a machine is switched on again.
type PowerOn string

// Values of PowerOn.
const (
	Always PowerOn = "always" // after its workloads were released
	Never  PowerOn = "never"  // it stays off: the plan has no command to switch on
	Manual PowerOn = "manual" // by an admin
)

// Level has methods in the order of their execution. In power management, methods that switch off
// precede those that switch on.
type Level []Method

// Off returns the methods that switch a device off.
func (l Level) Off() []Method { return l.with(agent.ActionOff) }

// On returns the methods that switch a device on.
func (l Level) On() []Method { return l.with(agent.ActionOn) }

func (l Level) with(a agent.Action) []Method {
	return slices.DeleteFunc(slices.Clone(l), func(m Method) bool { return m.Action != a })
}

// Has reports whether a method is in the level.
func (l Level) Has(name string) bool {
	return slices.ContainsFunc(l, func(m Method) bool { return m.Name == name })
}

// Method is a method of a step.
type Method struct {
	// Name is the name in the configuration, in lower case and with "-" for "_".
	Name string
	// Action is for Device. Built-in methods of the cluster have neither.
	Action agent.Action
	Device *Device
	// MustSucceed is false if a failure of the method does not fail the isolation.
	MustSucceed bool
	// Storage is set if a node whose Device is off cannot reach the storage that pods use. Those
	// pods are released once all devices with Storage are proved off.
	Storage bool `json:"-"`
}

// Built-in methods. All are done in the cluster, except RestartInstance, which is expanded to the off
// and the on of a device.
const (
	MarkUnschedulable = "mark-unschedulable"
	MarkSchedulable   = "mark-schedulable"
	Cordon            = "cordon"
	Uncordon          = "uncordon"
	RestartInstance   = "restart-instance"
	CleanPods         = "clean-pods"
	OutOfService      = "out-of-service"
	DetachVolumes     = "detach-volumes"
	DeleteNode        = "delete-node"
)

// Device is one plug, and how to reach it.
type Device struct {
	// Key is agent/address/plug and everything else that determines the plug, each part escaped as
	// in a URL's path. Devices with equal keys are the same.
	Key string
	// Agent is the name of the agent.
	Agent string
	// Arguments of the agent, sorted by name, without the action.
	Arguments []Argument
	// Settle is how long after a call has ended, or was broken off, the device may still execute it.
	// A device that takes longer breaks the guarantees.
	Settle time.Duration `json:"-"`
	// Timeout is how long the agent may take for a command or a reading, in whole seconds.
	Timeout time.Duration `json:"-"`
	// Poll is how long the device is read after a call before its answer counts, because machines
	// need a moment to go off. It is at most 2 s if there is another level.
	Poll time.Duration `json:"-"`
	// OffIsProof is false if the device also reads off while the machine can continue later, like a
	// suspended virtual machine. Off then proves something only after a command of this process
	// that its agent reports as sent.
	OffIsProof bool `json:"-"`
	// Queue is the same for plugs that are reached by one device, which may take one call at a time.
	Queue string `json:"-"`
	// Identity is the same for one plug with any agent. It has the agent's default port if none is
	// set.
	Identity string `json:"-"`
	// Claimed is set if the plug is the node's because of the node's own claims.
	Claimed bool `json:"-"`
}

// Argument is an argument of an agent.
type Argument struct {
	Name  string
	Value Value
}

// Hash identifies the plug and how it is reached. Fields that are not encoded do not count, and a
// password counts as in [Plan].Hash.
func (d *Device) Hash() string { return hash(d) }

func hash(v any) string {
	encoded, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible for strings and lists
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// Devices returns each device of the plan once, in the order of their first use.
func (p Plan) Devices() []*Device {
	var devices []*Device
	seen := map[string]bool{}
	for _, level := range p.Levels() {
		for _, m := range level {
			if m.Device != nil && !seen[m.Device.Key] {
				seen[m.Device.Key] = true
				devices = append(devices, m.Device)
			}
		}
	}
	return devices
}

// Claimed returns the devices that are the node's because of the node's own claims.
func (p Plan) Claimed() []*Device {
	return slices.DeleteFunc(p.Devices(), func(d *Device) bool { return !d.Claimed })
}

// Device finds a device by its key.
func (p Plan) Device(key string) (*Device, bool) {
	for _, d := range p.Devices() {
		if d.Key == key {
			return d, true
		}
	}
	return nil, false
}

// DeletesNode reports whether the Node is deleted after the release.
func (p Plan) DeletesNode() bool {
	return slices.ContainsFunc(p.PowerManagement, func(l Level) bool { return l.Has(DeleteNode) })
}

// Levels returns the levels of all steps.
func (p Plan) Levels() []Level {
	return slices.Concat([]Level{p.Isolation}, p.PowerManagement, []Level{p.Recovery})
}

// PlugHash returns what Hash is for these methods.
func (p Plan) PlugHash() string {
	plugs := func(levels []Level) (off []Level) {
		for _, l := range levels {
			if l = l.Off(); len(l) > 0 {
				off = append(off, l)
			}
		}
		return off
	}
	return hash([2][]Level{plugs([]Level{p.Isolation}), plugs(p.PowerManagement)})
}
