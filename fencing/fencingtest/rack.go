// Package fencingtest has power devices for tests of a fencing controller: plugs that work, and
// plugs with the faults of real ones.
package fencingtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Fault is how a plug handles commands and readings. The zero value works, at once.
type Fault struct {
	// Ignore acknowledges commands without executing them.
	Ignore bool
	// Fail answers commands with an error, whether they are executed or not.
	Fail bool
	// Late delays the execution of commands, but not their answers.
	Late time.Duration
	// Slow delays the answers to commands and readings. A command is executed even if its caller is
	// gone.
	Slow time.Duration
	// Takes is how long the plug takes to go off or on, like an instance of a cloud. The command is
	// answered after that. Until then, readings return an error, and commands have no effect.
	Takes time.Duration
	// Unreadable answers readings with an error.
	Unreadable bool
	// Switches is the plug that is switched in place of this one. Readings are of this plug.
	Switches string
	// Times is the number of commands and readings after which the fault ends. 0 means never.
	Times int
}

// Event is a command to a plug, or a change of its power.
type Event struct {
	At   time.Time `json:"at"`
	Plug string    `json:"plug"`
	// Kind is "command" when a command has arrived, or "power" when the power has changed.
	Kind   string       `json:"kind"`
	Action agent.Action `json:"action"`
	// Op is the ID of the command. Empty for a change by [Rack.Set].
	Op string `json:"op,omitempty"`
}

// Rack is a set of plugs, and an agent that switches them. The parameter "plug" of a target selects
// the plug. A Rack is safe for concurrent use. Close it after use.
type Rack struct {
	changed func(plug string, on bool)
	closed  chan struct{}
	close   func()
	late    sync.WaitGroup

	mu     sync.Mutex
	plugs  map[string]*plug
	events []Event
}

type plug struct {
	on    bool
	fault Fault
	until time.Time // when it will have gone off or on
}

var _ agent.Agent = (*Rack)(nil)

// NewRack returns a rack with plugs that are on. Unless it is nil, changed is called with each
// change of power, in order. It must not call the rack, which is locked meanwhile.
func NewRack(changed func(plug string, on bool), plugs ...string) *Rack {
	closed := make(chan struct{})
	r := &Rack{
		changed: changed, closed: closed, close: sync.OnceFunc(func() { close(closed) }),
		plugs: map[string]*plug{},
	}
	for _, name := range plugs {
		r.plugs[name] = &plug{on: true}
	}
	return r
}

// Close cancels delayed commands, and waits for those in progress.
func (r *Rack) Close() {
	r.close()
	r.late.Wait()
}

// Break sets the fault of a plug.
func (r *Rack) Break(name string, fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plug(name).fault = fault
}

// On reports whether a plug has power.
func (r *Rack) On(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plug(name).on
}

// Set switches a plug by hand.
func (r *Rack) Set(name string, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(name, on, "")
}

// Events returns the events so far.
func (r *Rack) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Count returns the number of events of a kind and an action for a plug.
func (r *Rack) Count(name, kind string, action agent.Action) int {
	n := 0
	for _, e := range r.Events() {
		if e.Plug == name && e.Kind == kind && e.Action == action {
			n++
		}
	}
	return n
}

// Power implements agent.Agent.
func (r *Rack) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	name, fault, err := r.meet(target)
	if err != nil {
		return agent.PowerUnknown, err
	}
	if err := wait(ctx, fault.Slow); err != nil {
		return agent.PowerUnknown, err
	}
	if fault.Unreadable || r.between(name) {
		return agent.PowerUnknown, fmt.Errorf("plug %s: no answer", name)
	}
	if r.On(name) {
		return agent.PowerOn, nil
	}
	return agent.PowerOff, nil
}

// Switch implements agent.Agent. It returns agent.ErrAlready for a plug that is already in the
// requested state.
func (r *Rack) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	name, fault, err := r.meet(target)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.events = append(r.events,
		Event{At: time.Now(), Plug: name, Kind: "command", Action: command.Action, Op: command.ID})
	already := r.plug(name).on == (command.Action == agent.ActionOn)
	r.mu.Unlock()
	switched := name
	if fault.Switches != "" {
		switched = fault.Switches
	}
	if between := r.between(name); !fault.Ignore && !between {
		r.begins(name, fault.Takes)
		r.land(switched, command, max(fault.Late, fault.Slow, fault.Takes))
	}
	if err := wait(ctx, max(fault.Slow, fault.Takes)); err != nil {
		return err
	}
	if fault.Fail {
		return errors.New("plug " + name + ": failed")
	}
	if already {
		return fmt.Errorf("plug %s: %w", name, agent.ErrAlready)
	}
	return nil
}

// begins makes a plug unreadable while it goes off or on.
func (r *Rack) begins(name string, takes time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plug(name).until = time.Now().Add(takes)
}

// between reports whether a plug is neither on nor off.
func (r *Rack) between(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.plug(name).until)
}

// land executes a command, after a delay or at once.
func (r *Rack) land(name string, command agent.Command, after time.Duration) {
	carryOut := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.set(name, command.Action == agent.ActionOn, command.ID)
	}
	if after == 0 {
		carryOut()
		return
	}
	r.late.Go(func() {
		if pause(r.closed, after) {
			carryOut()
		}
	})
}

// meet returns the plug of a target, and the fault of the next answer.
func (r *Rack) meet(target agent.Target) (string, Fault, error) {
	name, _ := target.Parameters.Get("plug")
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.plugs[name]
	if p == nil {
		return "", Fault{}, fmt.Errorf("the rack has no plug %q", name)
	}
	fault := p.fault
	if p.fault.Times > 0 {
		if p.fault.Times--; p.fault.Times == 0 {
			p.fault = Fault{}
		}
	}
	return name, fault, nil
}

// set changes the power of a plug. mu must be held.
func (r *Rack) set(name string, on bool, op string) {
	p := r.plug(name)
	if p.on == on {
		return
	}
	p.on = on
	action := agent.ActionOff
	if on {
		action = agent.ActionOn
	}
	r.events = append(r.events, Event{At: time.Now(), Plug: name, Kind: "power", Action: action, Op: op})
	if r.changed != nil {
		r.changed(name, on)
	}
}

// plug returns the plug with a name. mu must be held.
func (r *Rack) plug(name string) *plug {
	p := r.plugs[name]
	if p == nil {
		panic(fmt.Sprintf("fencingtest: the rack has no plug %q", name))
	}
	return p
}

func wait(ctx context.Context, d time.Duration) error {
	if !pause(ctx.Done(), d) {
		return ctx.Err()
	}
	return nil
}

// pause waits for d, and reports false if ended was closed before. For a d of 0 it uses no timer,
// because timers of 0 that several goroutines of one bubble read at a time crash the race detector.
func pause(ended <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ended:
		return false
	case <-t.C:
		return true
	}
}
