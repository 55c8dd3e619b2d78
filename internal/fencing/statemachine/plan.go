package statemachine

import (
	"errors"
	"fmt"
	"time"
)

// Defaults of a [Plan].
const (
	DefaultNotReadyFor   = 30 * time.Second
	DefaultPowerWait     = 5 * time.Minute
	DefaultBootGrace     = 10 * time.Minute
	DefaultRestartDelay  = 30 * time.Second
	DefaultDetachTimeout = time.Minute
	DefaultKdumpTimeout  = 5 * time.Minute
	DefaultHistory       = 24 * time.Hour
	DefaultSettle        = 30 * time.Second
	DefaultTimeout       = 30 * time.Second
	DefaultPoll          = 5 * time.Second
	DefaultRetries       = 3
	DefaultRestarts      = 1
)

// MaxDevices is the maximum number of devices of a plan. A device leaves at most two entries of
// evidence, off and on. With those of an admin and of a dump they stay below the 64 of a record.
const MaxDevices = 30

// Plan is the resolved configuration of a node. A zero field means its default.
type Plan struct {
	// Unresolved is the reason why there is no plan, or empty if there is one. Without a plan, no
	// configured action is done, and no device is given up.
	Unresolved string
	// Hash identifies the configuration. The first command to a device pins it, so that no further
	// device is switched off with another one in the incident. It must not be empty if there are
	// devices.
	Hash string

	// Isolation has the methods of the isolation step, in order. The fence's own taint comes first.
	Isolation []Method
	// Levels has the devices of the step power-management, in order. Each level cuts all feeds of
	// the machine. The next level is used if a level cannot prove that. Without levels, only an
	// admin can confirm that the machine has no power.
	Levels [][]Device
	// Recovery has the methods of the recovery step, in order. The fence's own taint is removed
	// last.
	Recovery []Method

	// PowerOn decides whether devices are switched on again. Default: [PowerOnAlways].
	PowerOn PowerOn
	// DeleteNode deletes the Node after the release. It requires [PowerOnNever].
	DeleteNode bool
	// FenceReadyNodes allows taking the power of a Ready node if the condition that started the
	// fence requires it.
	FenceReadyNodes bool
	// Kdump releases the pods of a node whose kernel sends dump messages, and leaves it its power
	// until the dump has ended.
	Kdump bool
	// KeepTaint keeps the fence's own taint on the node after the recovery. Another program or an
	// admin must remove it.
	KeepTaint bool

	// NotReadyFor is how long the condition must last. Default: 30 s.
	NotReadyFor time.Duration
	// PowerWait is how long an isolated node may take to return before it loses its power. Default:
	// 5 min.
	PowerWait time.Duration
	// BootGrace is how long a machine may take from power to Ready. Default: 10 min.
	BootGrace time.Duration
	// RestartDelay is how long a fence that has failed rests before it restarts. Default: 30 s.
	RestartDelay time.Duration
	// DetachTimeout is how long the release waits for volumes to be detached. Default: 1 min.
	DetachTimeout time.Duration
	// KdumpTimeout is how long a dump may keep the power on. Default: 5 min.
	KdumpTimeout time.Duration
	// History is how long a record is kept after its end. Default: 24 h.
	History time.Duration

	// Retries is how often a step may be tried, and a device be commanded. Default: 3.
	Retries int32
	// Restarts is how often the flow may restart after an error. Default: 1. If negative, it never
	// restarts.
	Restarts int32
}

// PowerOn sets whether devices that were switched off are switched on again.
type PowerOn string

// Values of PowerOn.
const (
	PowerOnAlways PowerOn = "always"
	PowerOnNever  PowerOn = "never"  // the machine stays off, and that is fine
	PowerOnManual PowerOn = "manual" // the machine stays off until a human has looked at it
)

// Method is one method of the steps isolation and recovery.
type Method struct {
	// Name is the admin's name for it.
	Name string
	// Device is switched off in isolation, and on in recovery. It is nil for a method of the
	// cluster, such as clean-pods.
	Device *Device
	// Storage is set if a node whose Device is off cannot reach the storage that pods use. Those
	// pods are released once all devices with Storage are proved off.
	Storage bool
	// Optional is set if its failure does not fail the isolation step.
	Optional bool
}

// Device is a plug, or a port, that can be switched and read.
type Device struct {
	// Name is its agent, address and plug. Two devices must not share one.
	Name string
	// Settle is how long after a call has ended, or was broken off, the device may still execute
	// it. Default: 30 s. A device that takes longer breaks the guarantees.
	Settle time.Duration
	// Timeout is how long a call may take. Default: 30 s.
	Timeout time.Duration
	// Poll is how long the device is read after a call before its answer counts, because machines
	// need a moment to go off. Default: 5 s, but at most 2 s if there is another level.
	Poll time.Duration
	// Known is set if it was read on with this very configuration while the node was Ready. A
	// device that is not known and reads off before it is commanded may belong to any machine, and
	// proves nothing.
	Known bool
	// Ambiguous is set if it also reads off while the machine can continue later, like a suspended
	// virtual machine. Off then proves something only after a command of this process that its
	// agent reports as sent.
	Ambiguous bool
}

// Validate reports everything that is wrong with the plan.
func (p Plan) Validate() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("statemachine: "+format, args...)) }
	devices := p.devices()
	seen := map[string]bool{}
	for _, d := range devices {
		switch {
		case d.Name == "":
			bad("Device: must have a name")
		case seen[d.Name]:
			bad("Device: must be in one place of a plan (got %q twice)", d.Name)
		}
		seen[d.Name] = true
		for field, value := range map[string]time.Duration{"Settle": d.Settle, "Timeout": d.Timeout, "Poll": d.Poll} {
			if value < 0 {
				bad("Device %q: %s: must not be negative (got %v)", d.Name, field, value)
			}
		}
		if d.Timeout%time.Second != 0 {
			bad("Device %q: Timeout: must be whole seconds (got %v)", d.Name, d.Timeout)
		}
	}
	if len(devices) > MaxDevices {
		bad("Devices: must be at most %d (got %d)", MaxDevices, len(devices))
	}
	if len(devices) > 0 && p.Hash == "" {
		bad("Hash: must not be empty where there are devices")
	}
	for i, level := range p.Levels {
		if len(level) == 0 {
			bad("Levels: must have a device each (got none in level %d)", i+1)
		}
	}
	for field, value := range map[string]time.Duration{
		"NotReadyFor": p.NotReadyFor, "PowerWait": p.PowerWait, "BootGrace": p.BootGrace,
		"RestartDelay":  p.RestartDelay,
		"DetachTimeout": p.DetachTimeout, "KdumpTimeout": p.KdumpTimeout, "History": p.History,
	} {
		if value < 0 {
			bad("%s: must not be negative (got %v)", field, value)
		}
	}
	switch p.PowerOn {
	case "", PowerOnAlways, PowerOnNever, PowerOnManual:
	default:
		bad("PowerOn: must be always, never or manual (got %q)", p.PowerOn)
	}
	if p.DeleteNode && p.PowerOn != PowerOnNever {
		bad("DeleteNode: must go with PowerOn never (got %q)", p.PowerOn)
	}
	if p.Retries < 0 {
		bad("Retries: must not be negative (got %d)", p.Retries)
	}
	return errors.Join(wrong...)
}

// devices returns those that a plan switches off. What recovery switches on was switched off by
// isolation.
func (p Plan) devices() []Device {
	var all []Device
	for _, m := range p.Isolation {
		if m.Device != nil {
			all = append(all, *m.Device)
		}
	}
	for _, level := range p.Levels {
		all = append(all, level...)
	}
	return all
}

// device finds a device by its name, and its level.
func (p *Plan) device(name string) (d Device, ok bool) {
	for _, level := range p.Levels {
		for _, d := range level {
			if d.Name == name {
				return d, true
			}
		}
	}
	for _, m := range p.Isolation {
		if m.Device != nil && m.Device.Name == name {
			return *m.Device, true
		}
	}
	return Device{Name: name}, false
}

func (p *Plan) retries() int32 { return or(p.Retries, DefaultRetries) }

func (p *Plan) restarts() int32 { return max(0, or(p.Restarts, DefaultRestarts)) }

func (d Device) settle() time.Duration { return or(d.Settle, DefaultSettle) }

func (d Device) timeout() time.Duration { return or(d.Timeout, DefaultTimeout) }

func (d Device) poll() time.Duration { return or(d.Poll, DefaultPoll) }

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
