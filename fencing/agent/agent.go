// Package agent is what a fencing controller needs of devices that give machines their power, and of those that give
// them their storage or network: read one plug, and switch it.
//
// Nothing that an agent returns is proof of what it did. A device may answer that it has switched a plug and not have
// done so, may do it after it was asked for the second time, and may do it after the agent was killed. So a fence
// believes readings only, taken by a later call, and never sends a command again before the device has had the time to
// carry out the one before. An Agent has nothing to do but ask; it neither repeats nor judges.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// ErrAlive says that something an agent has started could not be ended: what it still sends, it may send at any time. No waiting covers that, so nothing
// more is done to the node until somebody has looked at it.
var ErrAlive = errors.New("agent: something of it is still alive, and could not be ended")

// Agent speaks to devices of one kind or of many. Its methods may be called at the same time.
type Agent interface {
	// Power reads whether the target's plug has power. An error is a plug that could not be read; Power is unknown then.
	Power(ctx context.Context, target Target) (v1alpha1.Power, error)
	// Switch sends one command and returns when the agent has ended, or when ctx has, with everything that it started
	// dead by then, or with ErrAlive. Neither nil nor an error says whether the plug was switched, or will be.
	Switch(ctx context.Context, target Target, command Command) error
}

// Target is one plug of one device.
type Target struct {
	// Node is the node whose machine depends on the plug.
	Node string
	// Device names agent, address and plug. It holds no secret.
	Device string
	// Agent is the name of the program or API that speaks to the device, such as fence_ipmilan.
	Agent string
	// Parameters are the agent's, with address, plug and credentials.
	Parameters Parameters
}

// Command is what a device is told.
type Command struct {
	// ID names the operation. Another call with the same ID is the same operation, after a restart of the controller.
	ID     string
	Action v1alpha1.OpAction
	// Timeout is how long the agent may take.
	Timeout time.Duration
}

// Parameters are names and values for an agent. Some are secret, so none of them is printed, logged or encoded: only
// their names are.
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
