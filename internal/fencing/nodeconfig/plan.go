package nodeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Plan is the configuration of one node.
type Plan struct {
	// Node is the name of the node.
	Node string
	// Object is the name of the ConfigMap, or [BuiltIn].
	Object string
	// Isolation and PowerManagement have levels, or are empty if there is nothing to do. Isolation
	// has at most one. In PowerManagement, each level is used when the one before it has failed.
	Isolation, PowerManagement []Level
	// Recovery has the methods for a node that is Ready again.
	Recovery Level
	// PowerOn decides whether a machine is switched on again.
	PowerOn PowerOn

	// NotReadyFor is how long a node must fail before the fence starts.
	NotReadyFor time.Duration
	// PowerWait is the wait between isolation and power management.
	PowerWait time.Duration
	// BootGrace is how long a machine may take to become Ready after it was switched on.
	BootGrace time.Duration
	// Retries bounds the tries of a method, Restarts the restarts of the fence after a failure.
	Retries, Restarts int
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
func (l Level) Off() []Method { return l.with(Off) }

// On returns the methods that switch a device on.
func (l Level) On() []Method { return l.with(On) }

func (l Level) with(a Action) []Method {
	return slices.DeleteFunc(slices.Clone(l), func(m Method) bool { return m.Action != a })
}

// Action is a command to a device.
type Action string

// Commands to devices. A reboot is off and on, and the device is read in between.
const (
	Off Action = "off"
	On  Action = "on"
)

// Method is a method of a step.
type Method struct {
	// Name is the name in the configuration, in lower case and with "-" for "_".
	Name string
	// Action is for Device. Built-in methods of the cluster have neither.
	Action Action
	Device *Device
	// MustSucceed is false if a failure of the method does not fail the isolation.
	MustSucceed bool
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
	// Settle is the time after which an accepted command has taken effect.
	Settle time.Duration `json:"-"`
	// Timeout is how long the agent may take for a command or a reading, in whole seconds. 0 means
	// the default of the controller.
	Timeout time.Duration `json:"-"`
	// OffIsProof is that of the agent, unless the configuration sets it.
	OffIsProof bool `json:"-"`
	// Queue is the same for plugs that are reached by one device, which may take one call at a time.
	Queue string `json:"-"`

	// identity is the same for one plug with any agent. It has the agent's default port if
	// none is set.
	identity string
	// claimed is set if the plug is the node's because of the node's own claims.
	claimed bool
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

// Target returns the device for an agent, with the values that secret looks up. One newline at the
// end of a value is removed. Placeholders in it are not replaced, and no error contains it.
func (d *Device) Target(node string, secret func(SecretRef) ([]byte, bool)) (agent.Target, error) {
	values := map[string]string{}
	for _, a := range d.Arguments {
		if a.Value.text != nil {
			values[a.Name] = *a.Value.text
			continue
		}
		content, found := secret(a.Value.secret)
		value, longest, broken := withoutNewline(string(content)), maxLine-len(a.Name)-len(`=""`), ""
		switch flaw := badText(value); {
		case !found:
			broken = "is missing"
		case flaw != "":
			broken = "must be one line of UTF-8 text (got " + flaw + ")"
		case value == "" || len(value) > longest:
			broken = fmt.Sprintf("must have from 1 to %d bytes (got %d)", longest, len(value))
		}
		if broken != "" {
			return agent.Target{}, fmt.Errorf("config: %s: %s: secret %v %s", d.Key, a.Name, a.Value.secret, broken)
		}
		values[a.Name] = value
	}
	return agent.Target{Node: node, Device: d.Key, Agent: d.Agent, Parameters: agent.NewParameters(values)}, nil
}

func withoutNewline(s string) string {
	if shorter, found := strings.CutSuffix(s, "\r\n"); found {
		return shorter
	}
	return strings.TrimSuffix(s, "\n")
}

// Devices returns each device of the plan once, in the order of their first use.
func (p Plan) Devices() []*Device {
	var devices []*Device
	seen := map[string]bool{}
	for _, level := range slices.Concat(p.Isolation, p.PowerManagement, []Level{p.Recovery}) {
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
	return slices.DeleteFunc(p.Devices(), func(d *Device) bool { return !d.claimed })
}

// hash returns the hash of the plan. Of a password, only its existence counts.
func (p Plan) hash() string {
	plugs := func(levels []Level) (off []Level) {
		for _, l := range levels {
			if l = l.Off(); len(l) > 0 {
				off = append(off, l)
			}
		}
		return off
	}
	return hash([2][]Level{plugs(p.Isolation), plugs(p.PowerManagement)})
}
