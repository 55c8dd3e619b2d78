package lab

import (
	"sync"
	"time"
)

// Machine runs while its chassis is switched on and one of its feeds, if it has any, has power.
// Safe for concurrent use.
type Machine struct {
	onPower func(on bool)

	mu      sync.Mutex
	chassis *Plug
	feeds   []*Plug
	changes []Change
	fed     func(powered bool)
	unfed   bool // no feed has power
}

// Change is a machine that began or ceased to run, or a plug that got or lost its power.
type Change struct {
	At time.Time
	On bool
}

// NewMachine returns a machine that runs. With each change onPower, which may be nil, is called, in
// the order of the changes and before the device answers; it must not ask the machine.
func NewMachine(onPower func(on bool)) *Machine {
	m := &Machine{onPower: onPower}
	m.chassis = NewPlug(func(bool) { m.update() })
	return m
}

// Chassis is what a BMC switches: its power button.
func (m *Machine) Chassis() *Plug { return m.chassis }

// Feed adds a power supply and returns the plug that it hangs on.
func (m *Machine) Feed() *Plug {
	feed := NewPlug(func(bool) { m.update() })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feeds = append(m.feeds, feed)
	return feed
}

// Fed has f called with each change of whether any feed has power, in the order of the changes and
// before the device answers: what hangs on the feeds besides the machine, such as its BMC, loses
// its power with them. It must not ask the machine.
func (m *Machine) Fed(f func(powered bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fed = f
}

// On says whether the machine runs.
func (m *Machine) On() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on()
}

// Changes returns all changes until now.
func (m *Machine) Changes() []Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Change(nil), m.changes...)
}

// on is called with the lock held: it is whether the machine runs after the changes so far.
func (m *Machine) on() bool {
	return len(m.changes) == 0 || m.changes[len(m.changes)-1].On
}

// update compares what the plugs are now with what the machine does.
func (m *Machine) update() {
	m.mu.Lock()
	defer m.mu.Unlock()
	powered := len(m.feeds) == 0
	for _, feed := range m.feeds {
		powered = powered || feed.On()
	}
	if m.unfed == powered {
		if m.unfed = !powered; m.fed != nil {
			m.fed(powered)
		}
	}
	if on := powered && m.chassis.On(); on != m.on() {
		m.changes = append(m.changes, Change{At: time.Now(), On: on})
		if m.onPower != nil {
			m.onPower(on)
		}
	}
}
