// Package agent is the interface between a fencing controller and the devices that give machines
// power, storage or network: read one plug, and switch it.
//
// The result of a command proves nothing. A device may acknowledge a command that it does not
// execute, execute it at the second request only, or execute it after the agent was killed. A fence
// therefore believes only readings that a later call has taken, and repeats a command only after
// the time in which the device may still execute the last one. An Agent only passes commands and
// answers on: it neither retries nor interprets.
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
var ErrAlive = errors.New("agent: something of it is still alive, and could not be ended")

// ErrAlready is returned by Agent.Switch if the plug was found as the command asks for, so that nothing was
// sent.
var ErrAlready = errors.New("agent: the plug was so already, and nothing was sent")

// ErrNoEffect is returned by Agent.Switch if the plug was found otherwise, the command was sent, and the
// agent has seen no effect in its time.
var ErrNoEffect = errors.New("agent: the command was sent, and no effect was seen")

// Agent reads and switches devices of one or many kinds. It must be safe for concurrent use.
type Agent interface {
	// Power reads whether the target's plug has power. If the plug cannot be read, it returns
	// PowerUnknown and an error.
	Power(ctx context.Context, target Target) (Power, error)
	// Switch sends one command. It returns when the agent has ended, or when ctx has ended and
	// everything that the agent has started is dead, or ErrAlive. No error says whether the plug was or
	// will be switched. But nil and ErrNoEffect say that the command was sent, to a plug that was not
	// so yet; off by an agent without [Metadata].OffIsProof counts only after that.
	Switch(ctx context.Context, target Target, command Command) error
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
	// ID identifies the operation. A call with the same ID is the same operation, also after a
	// restart of the controller.
	ID     string
	Action Action
	// Timeout is the maximum duration of the agent.
	Timeout time.Duration
}

// Parameters are names and values for an agent. They may be secret, so that printing, logging and
// encoding show their names only.
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

// LogValue is for slog: the names only.
func (p Parameters) LogValue() slog.Value { return slog.StringValue(p.String()) }
