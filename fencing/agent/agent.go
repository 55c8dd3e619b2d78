// Package agent is the interface between the fencing controller and the devices that can cut off a
// machine: BMCs, power distribution units, clouds, storage arrays and switches. To use the fence
// agents of ClusterLabs, take package fenceagents, which implements it. For a device of your own,
// implement [Agent] and set it in fencing.Config.Agents. One method reads the state of a plug (the
// part of the device that feeds one machine), the other switches it:
//
//	func (a myPDU) Power(ctx context.Context, t agent.Target) (agent.Power, error) { ... }
//	func (a myPDU) Switch(ctx context.Context, t agent.Target, c agent.Command) error { ... }
//
// An Agent only relays commands and responses; it neither retries nor interprets them. The result
// of a command proves nothing, because a device may acknowledge a command without executing it,
// execute it only at the second request, or execute it after the agent was killed. The controller
// therefore trusts only what a later call of Power reads, and repeats a command only when the device
// can no longer be executing the previous one.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// ErrAlive is returned if an agent has started something that could not be ended and may send a
// command at any time. The controller then does nothing more to the node until an admin has looked
// at it.
var ErrAlive = errors.New("agent: a child process is still running and could not be killed")

// ErrAlready is returned by Agent.Switch if the plug was already in the requested state, so that
// nothing was sent.
var ErrAlready = errors.New("agent: the plug was already in the requested state, and nothing was sent")

// ErrNoEffect is returned by Agent.Switch if the plug was in the other state, the command was sent,
// and the agent saw no effect in time.
var ErrNoEffect = errors.New("agent: the command was sent, but had no visible effect")

// Agent reads and switches devices of one or many kinds. It must be safe for concurrent use.
type Agent interface {
	// Power reads whether the target's plug has power. If the plug cannot be read, it returns
	// PowerUnknown and an error.
	Power(ctx context.Context, target Target) (Power, error)
	// Switch sends one command. It returns when the agent has ended, or when ctx has ended and
	// everything that the agent has started is dead, or else ErrAlive. No error shows whether the
	// plug was or will be switched, but nil and ErrNoEffect mean that the command was sent to a
	// plug in the other state. Off by an agent without [Metadata].OffIsProof counts only after
	// that.
	Switch(ctx context.Context, target Target, command Command) error
}

// Preparer is an Agent whose readings need something that can be started before the device may be asked,
// such as a program. It is optional. The controller then proves sooner that a machine is off, because it
// reads a device twice, with a pause.
type Preparer interface {
	// Prepare starts what one reading of the target needs, without a request to the device, and
	// returns at once. power then reads as Power does, and must be called once. If ctx has ended
	// before it returns, it returns an error, once everything that was started is dead, or else
	// ErrAlive.
	Prepare(ctx context.Context, target Target) (power func(ctx context.Context) (Power, error))
}

// Target is one plug of a device.
type Target struct {
	// Node is the node whose machine depends on the plug.
	Node string
	// Device names agent, address and plug. It contains no secret.
	Device string
	// Agent is the name of the program or API that talks to the device, such as fence_ipmilan.
	Agent string
	// Parameters of the agent, with address, plug and credentials.
	Parameters Parameters
}

// Command is a command to a device.
type Command struct {
	// ID identifies the operation. A call with the same ID is the same operation, even after a
	// restart of the controller.
	ID     string
	Action Action
	// Timeout is the maximum duration of the agent.
	Timeout time.Duration
}

// Parameters are names and values for an agent. The values may be secret, so printing, logging and
// encoding show only the names.
type Parameters struct{ values map[string]string }

// NewParameters returns a copy of values as Parameters.
func NewParameters(values map[string]string) Parameters {
	return Parameters{values: maps.Clone(values)}
}

// Get returns the value of a parameter.
func (p Parameters) Get(name string) (value string, ok bool) {
	value, ok = p.values[name]
	return value, ok
}

// Names returns the names of all parameters, sorted.
func (p Parameters) Names() []string { return slices.Sorted(maps.Keys(p.values)) }

// Format prints names only, whatever the verb.
func (p Parameters) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, p.String()) }

// String returns the names only.
func (p Parameters) String() string { return fmt.Sprintf("parameters %v", p.Names()) }

// MarshalText encodes the names only.
func (p Parameters) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue returns only the names for slog.
func (p Parameters) LogValue() slog.Value { return slog.StringValue(p.String()) }
