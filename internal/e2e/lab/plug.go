package lab

import (
	"sync"
	"time"
)

// Plug is what one command switches: the power button of a chassis, an outlet, a port of a switch.
// It is on at first. Safe for concurrent use.
type Plug struct {
	onSwitch func(on bool)
	switched sync.Mutex // orders the calls of onSwitch

	mu       sync.Mutex
	on       bool
	sleeps   bool
	fault    Fault
	commands []Command
	changes  []Change
	held     []bool
}

// Command is one that reached a plug's device, whatever became of it.
type Command struct {
	At time.Time
	On bool
}

// Fault is how a plug misbehaves. The zero value is a plug that works.
type Fault struct {
	// Ignores makes the device acknowledge commands and do nothing.
	Ignores bool
	// Holds makes it acknowledge commands at once, and carry them out when Land is called.
	Holds bool
	// Slow makes it answer anything, readings too, after this time.
	Slow time.Duration
}

// NewPlug returns a plug. With each change onSwitch, which may be nil, is called, in the order of
// the changes and before the device answers.
func NewPlug(onSwitch func(on bool)) *Plug {
	return &Plug{onSwitch: onSwitch, on: true}
}

// Break makes the plug misbehave from now on. What is held stays so.
func (p *Plug) Break(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// On says whether the plug has power.
func (p *Plug) On() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

// Suspend suspends a virtual machine by hand: its programs stand still, and go on with Resume. It is on all
// the time.
func (p *Plug) Suspend() { p.suspend(true) }

// Resume has a suspended machine go on.
func (p *Plug) Resume() { p.suspend(false) }

func (p *Plug) suspend(suspended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sleeps = suspended
}

// Suspended says whether a machine is suspended.
func (p *Plug) Suspended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sleeps
}

// Commands returns all that reached the plug until now.
func (p *Plug) Commands() []Command {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Command(nil), p.commands...)
}

// Changes returns all changes of the plug's power until now, also those by hand.
func (p *Plug) Changes() []Change {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Change(nil), p.changes...)
}

// Land carries out the commands that are held, in their order.
func (p *Plug) Land() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, on := range held {
		p.Press(on)
	}
}

// Press switches the plug by hand, however broken its device is.
func (p *Plug) Press(on bool) {
	p.switched.Lock()
	defer p.switched.Unlock()
	p.mu.Lock()
	changed := p.on != on
	p.on, p.sleeps = on, false
	if changed {
		p.changes = append(p.changes, Change{At: time.Now(), On: on})
	}
	p.mu.Unlock()
	if changed && p.onSwitch != nil {
		p.onSwitch(on)
	}
}

// read is a device's answer to the question whether the plug has power.
func (p *Plug) read() bool {
	p.mu.Lock()
	slow := p.fault.Slow
	p.mu.Unlock()
	<-time.After(slow)
	return p.On()
}

// command is a device that was told to switch the plug. It returns when the device would
// acknowledge that.
func (p *Plug) command(on bool) {
	p.mu.Lock()
	fault := p.fault
	p.commands = append(p.commands, Command{At: time.Now(), On: on})
	if fault.Holds {
		p.held = append(p.held, on)
	}
	p.mu.Unlock()
	<-time.After(fault.Slow)
	if !fault.Ignores && !fault.Holds {
		p.Press(on)
	}
}
