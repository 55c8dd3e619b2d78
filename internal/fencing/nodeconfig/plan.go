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

// Plan is how one node is fenced.
type Plan struct {
	// Node is its name.
	Node string
	// Object is the ConfigMap that says so, or [BuiltIn].
	Object string
	// Isolation and PowerManagement have levels, none if there is nothing to do. Isolation has one
	// at most. In PowerManagement each after the first is for when the one before it has failed.
	Isolation, PowerManagement []Level
	// Recovery is for when the node is ready again.
	Recovery Level
	// PowerOn says what becomes of a machine that was switched off.
	PowerOn PowerOn

	// NotReadyFor is for how long a node has to have been not ready before anything is done.
	NotReadyFor time.Duration
	// PowerWait lies between isolation and power management.
	PowerWait time.Duration
	// BootGrace is how long a machine may take until it is ready, after it was switched on.
	BootGrace time.Duration
	// Retries is how often a method is tried at most, Restarts how often the fence restarts after a
	// failure.
	Retries, Restarts int
	// Kdump releases the pods of a node whose kernel says that it writes a dump, and has the first
	// off wait for its end, for at most KdumpTimeout.
	Kdump        bool
	KdumpTimeout time.Duration

	// Warnings do not keep the node from being fenced.
	Warnings []*Problem
	// Hash is of all above but the warnings. A password counts with where it is, not with what it
	// is, and not at all if it is not in a Secret: the hash is stored where others can read it.
	Hash string
}

// BuiltIn is the name of the configuration that a node has without any ConfigMap.
const BuiltIn = "built-in"

// PowerOn says when a machine is switched on again.
type PowerOn string

// When a machine is switched on again.
const (
	Always PowerOn = "always" // after its workloads were released
	Never  PowerOn = "never"  // it stays off: the plan has no on
	Manual PowerOn = "manual" // a human does it
)

// Level is methods in the order in which they are done. In power management the methods that switch
// off come before those that switch on.
type Level []Method

// Off returns the methods that switch a device off.
func (l Level) Off() []Method { return l.with(Off) }

// On returns the methods that switch a device on.
func (l Level) On() []Method { return l.with(On) }

func (l Level) with(a Action) []Method {
	var found []Method
	for _, m := range l {
		if m.Action == a {
			found = append(found, m)
		}
	}
	return found
}

// Action of a device.
type Action string

// The commands of devices. There is no reboot: it is off and on, with a look at the device between
// them.
const (
	Off Action = "off"
	On  Action = "on"
)

// Method of a step.
type Method struct {
	// Name in the configuration, in lower case and with "-" for "_".
	Name string
	// Action for Device. Both are missing in a method that is built in and done in the cluster.
	Action Action
	Device *Device
	// MustSucceed is false if a failure of it does not fail an isolation.
	MustSucceed bool
}

// Methods that are built in. All but RestartInstance, which is expanded to the off and the on of a
// device, are done in the cluster.
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

// Device is one plug, and how it is reached.
type Device struct {
	// Key is agent/address/plug, and what else says which plug is meant, each escaped as in the
	// path of a URL. Two devices with one key are one.
	Key string
	// Agent is its name.
	Agent string
	// Arguments of the agent, sorted by name, without the action.
	Arguments []Argument
	// Settle is after how long a command that was accepted has landed at the latest.
	Settle time.Duration
	// Timeout is how long the agent may take for a command or a reading. Whole seconds; 0: what the
	// controller gives all of them.
	Timeout time.Duration `json:",omitempty"`

	// identity is the same for one plug whatever the agent, with the port that the agent takes if
	// none is given.
	identity string
	// claimed says that it is by what the node says of itself that this is its plug.
	claimed bool
}

// Argument of an agent.
type Argument struct {
	Name  string
	Value Value
}

// Hash tells which plug it is and how it is reached from any other way. It is not of Settle and
// Timeout, and a password counts as in [Plan].Hash.
func (d *Device) Hash() string {
	encoded, err := json.Marshal(struct {
		Key, Agent string
		Arguments  []Argument
	}{d.Key, d.Agent, d.Arguments})
	if err != nil {
		panic(err) // texts and lists of them can be encoded
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// Target returns the device for an agent, with the values of the Secrets that the function looks
// up. One newline at the end of a value is removed, nothing is replaced in it, and no error tells
// it.
func (d *Device) Target(node string, secret func(SecretRef) ([]byte, bool)) (agent.Target, error) {
	values := map[string]string{}
	for _, a := range d.Arguments {
		value, plain := a.Value.Text()
		if !plain {
			ref, _ := a.Value.Secret()
			content, found := secret(ref)
			if !found {
				return agent.Target{}, fmt.Errorf("config: %s: %s: secret %v is missing", d.Key, a.Name, ref)
			}
			value = withoutNewline(string(content))
			switch flaw := badText(value); {
			case flaw != "":
				return agent.Target{}, fmt.Errorf(
					"config: %s: %s: secret %v must be one line of UTF-8 text (got %s)",
					d.Key,
					a.Name,
					ref,
					flaw,
				)
			case value == "" || len(a.Name)+len(`=""`)+len(value) > maxLine:
				return agent.Target{}, fmt.Errorf("config: %s: %s: secret %v must have from 1 to %d bytes (got %d)",
					d.Key, a.Name, ref, maxLine-len(a.Name)-len(`=""`), len(value))
			}
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
	for _, level := range p.levels() {
		for _, m := range level {
			if m.Device != nil && !seen[m.Device.Key] {
				seen[m.Device.Key] = true
				devices = append(devices, m.Device)
			}
		}
	}
	return devices
}

// Claimed returns the devices of the plan that are the node's because of what the node says of
// itself.
func (p Plan) Claimed() []*Device {
	return slices.DeleteFunc(p.Devices(), func(d *Device) bool { return !d.claimed })
}

func (p Plan) levels() []Level {
	var levels []Level
	levels = append(levels, p.Isolation...)
	levels = append(levels, p.PowerManagement...)
	return append(levels, p.Recovery)
}

// hash is of the plan's encoding, in which a password is only that there is one.
func (p Plan) hash() string {
	p.Warnings, p.Hash = nil, ""
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts, numbers and lists of them can be encoded
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
