// Package fencingtest has power devices for tests of a fencing controller: plugs that do as they are told, and plugs
// that lie in the ways of real ones.
package fencingtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// Fault is how a plug deals with commands and readings. The zero value does as it is told, at once.
type Fault struct {
	// Ignore answers that a command was carried out, and does nothing.
	Ignore bool
	// Fail answers a command with an error, whether it is carried out or not.
	Fail bool
	// Late carries a command out so much later. The answer does not wait for it.
	Late time.Duration
	// Slow is how long the answer to a command or a reading takes. A command whose caller has gone away is carried out
	// all the same.
	Slow time.Duration
	// Takes is how long a plug takes to go off or on, as instances of a cloud do. The answer to the command
	// waits for that, and meanwhile readings are answered with an error. A command that comes meanwhile
	// does nothing.
	Takes time.Duration
	// Unreadable answers readings with an error.
	Unreadable bool
	// Switches is the plug that is switched instead of this one; readings are of this one.
	Switches string
	// Times is how many commands and readings the fault lasts for; 0 is for ever.
	Times int
}

// Event is something that happened to a plug.
type Event struct {
	At   time.Time `json:"at"`
	Plug string    `json:"plug"`
	// Kind is "command", when one arrived, or "power", when the power changed.
	Kind   string            `json:"kind"`
	Action v1alpha1.OpAction `json:"action"`
	// Op is the ID of the command; empty for what a test did by hand.
	Op string `json:"op,omitempty"`
}

// Rack is a set of plugs and an agent that switches them. The parameter "plug" of a target names the plug. Its methods
// may be called at the same time. Close it in the end.
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
	until time.Time // when it has gone off or on that takes a while for that
}

var _ agent.Agent = (*Rack)(nil)

// NewRack returns a rack of plugs that are on. Changed, unless nil, is called in order with each change of power, while
// the rack is locked: it must not call the rack.
func NewRack(changed func(plug string, on bool), plugs ...string) *Rack {
	closed := make(chan struct{})
	r := &Rack{changed: changed, closed: closed, close: sync.OnceFunc(func() { close(closed) }), plugs: map[string]*plug{}}
	for _, name := range plugs {
		r.plugs[name] = &plug{on: true}
	}
	return r
}

// Close cancels commands that would be carried out later, and waits for them.
func (r *Rack) Close() {
	r.close()
	r.late.Wait()
}

// Break gives a plug a fault, and ends the one before.
func (r *Rack) Break(name string, fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plug(name).fault = fault
}

// On says whether a plug has power.
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

// Events returns what has happened so far.
func (r *Rack) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Count returns how many events of a kind and an action there were for a plug.
func (r *Rack) Count(name, kind string, action v1alpha1.OpAction) int {
	n := 0
	for _, e := range r.Events() {
		if e.Plug == name && e.Kind == kind && e.Action == action {
			n++
		}
	}
	return n
}

// Power implements agent.Agent.
func (r *Rack) Power(ctx context.Context, target agent.Target) (v1alpha1.Power, error) {
	name, fault, err := r.meet(target)
	if err != nil {
		return v1alpha1.PowerUnknown, err
	}
	if err := wait(ctx, fault.Slow); err != nil {
		return v1alpha1.PowerUnknown, err
	}
	if fault.Unreadable || r.between(name) {
		return v1alpha1.PowerUnknown, fmt.Errorf("plug %s: no answer", name)
	}
	if r.On(name) {
		return v1alpha1.PowerOn, nil
	}
	return v1alpha1.PowerOff, nil
}

// Switch implements agent.Agent.
func (r *Rack) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	name, fault, err := r.meet(target)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.events = append(r.events, Event{At: time.Now(), Plug: name, Kind: "command", Action: command.Action, Op: command.ID})
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
	return nil
}

// begins has a plug take a while to go off or on.
func (r *Rack) begins(name string, takes time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plug(name).until = time.Now().Add(takes)
}

// between says that a plug is neither on nor off.
func (r *Rack) between(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.plug(name).until)
}

// land carries a command out, after a time or at once.
func (r *Rack) land(name string, command agent.Command, after time.Duration) {
	carryOut := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.set(name, command.Action == v1alpha1.ActionOn, command.ID)
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

// meet returns the plug that a target names, and the fault that the next answer has.
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

// set changes the power of a plug; mu is held.
func (r *Rack) set(name string, on bool, op string) {
	p := r.plug(name)
	if p.on == on {
		return
	}
	p.on = on
	action := v1alpha1.ActionOff
	if on {
		action = v1alpha1.ActionOn
	}
	r.events = append(r.events, Event{At: time.Now(), Plug: name, Kind: "power", Action: action, Op: op})
	if r.changed != nil {
		r.changed(name, on)
	}
}

// plug returns a plug that a test names; mu is held.
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

// pause waits for d, and says whether it has come to an end of its own.
func pause(ended <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ended:
		return false
	case <-t.C:
		return true
	}
}
