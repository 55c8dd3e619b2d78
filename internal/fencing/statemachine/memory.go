package statemachine

import (
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Memory has what one process has seen and done for one record. Losing it with the process costs
// only time. It is a value: [Memory.After] returns the next one. Discard it when the leadership is
// lost.
type Memory struct {
	since  clock.Reading // when this process began with the record
	begun  clock.Reading // when it began with the incident
	unsent string        // ID of the operation that it has recorded but not sent

	waits clock.Reading // since when it has had the wait in the record
	own   v1alpha1.Wait // the wait that it has begun then; zero if another process has
	held  clock.Reading // when it last reported why nothing happens

	node    Node
	looked  clock.Reading // when the look that found it began
	present bool          // there was a look since the last write
	// Whether the node's Lease was renewed since the last call in this phase, and since the last
	// reading.
	sinceChange, sinceRead renewals

	devices  []deviceReading
	progress progress
}

// renewals detects whether a Lease was renewed. Later values are compared with the first one.
type renewals struct {
	based, renewed bool
	first          string
}

func (r *renewals) see(n Node) {
	switch {
	case n.Missing:
		*r = renewals{}
	case n.Renewal == "" && r.based: // a missing Lease was not renewed
	case !r.based:
		r.based, r.first = true, n.Renewal
	case r.first != n.Renewal:
		r.renewed = true
	}
}

// deviceReading has what this process knows about a device.
type deviceReading struct {
	device string
	called bool          // this process has called it
	quiet  clock.Reading // when its last call ended
	sent   string        // ID of the last command that its agent reports as sent, to a plug in the other state

	power agent.Power   // empty if not read since
	began clock.Reading // when the last reading began
	at    clock.Reading // when its answer arrived
	first time.Time     // the first of several readings off in a row
	twice bool          // it was read off twice, with enough time in between
}

// progress is the progress of this process in a phase.
type progress struct {
	methods int    // completed
	failed  string // the last one that failed

	tainted, deleted, detached, untainted bool
	// when the pods were gone, when the rest was last counted, and when the taint was gone
	emptied, awaited, freed clock.Reading
	pods                    v1alpha1.Pods
}

// NewMemory returns the memory of a process that starts with a record, even after a restart.
func NewMemory(now clock.Reading) Memory {
	return Memory{since: now, begun: now, waits: now, held: now}
}

// Adopt returns the memory of a process that continues with a record that another writer has
// changed. It keeps only when this process has begun the wait in the record.
func (m Memory) Adopt(now clock.Reading, s *v1alpha1.Status) Memory {
	next := NewMemory(now)
	if m.hasBegun(s.Wait) {
		next.waits, next.own = m.waits, m.own
	}
	return next
}

// hasBegun reports whether this process has begun a wait.
func (m *Memory) hasBegun(w *v1alpha1.Wait) bool {
	return w != nil && w.Kind == m.own.Kind && w.Since.Equal(&m.own.Since)
}

// Outcome is the result of a step.
type Outcome struct {
	// Began is before the first request or command of the step, Ended after the last answer.
	Began, Ended clock.Reading
	// Failed is set if a write met a conflict or may not have been made (read the record again), or
	// if a method failed. A failed look or part of the release is not reported, but repeated.
	Failed bool
	// Sent is set if the agent of a [Call] reports that it has sent the command, to a plug in the
	// other state. That proves nothing by itself.
	Sent bool
	// Node is the result of a look.
	Node Node
	// Powers are the results of a [Read], in the order of its devices.
	Powers []agent.Power
	// Pods counts the pods that the release has listed and deleted.
	Pods v1alpha1.Pods
	// Left is set if the part of the release is not complete and must be repeated.
	Left bool
}

// After returns the memory after a step. before is the status that was the input of the decision.
func (m Memory) After(before *v1alpha1.Status, step Step, o Outcome) Memory {
	m.devices = slices.Clone(m.devices)
	switch step := step.(type) {
	case Write:
		m.wrote(before, step, o)
	case SetFinalizer, DropAnnotation, Delete:
		m.present = false
	case Look:
		m.saw(o)
	case Read:
		m.read(step, o)
	case Call:
		m.called(step, o)
	case Act:
		m.progress.methods++
		if o.Failed {
			m.progress.failed = step.Method
		}
	case Release:
		m.released(step, o)
	}
	return m
}

// Changed returns the memory after a change of the node, which must be read again.
func (m Memory) Changed() Memory {
	m.present = false
	return m
}

func (m *Memory) wrote(before *v1alpha1.Status, step Write, o Outcome) {
	after := &step.Status
	m.present = false
	if step.Reason == Held {
		m.held = o.Ended
	}
	if after.Incident != before.Incident { // earlier knowledge is of another incident
		m.begun = o.Ended
	}
	if after.Wait != nil && (before.Wait == nil || *after.Wait != *before.Wait) {
		m.waits, m.own = o.Began, *after.Wait
		if o.Failed {
			m.own = v1alpha1.Wait{}
		}
	}
	if o.Failed { // what was seen may belong to another phase
		m.progress, m.sinceChange = progress{}, renewals{}
		for i := range m.devices {
			m.devices[i].power, m.devices[i].twice = "", false
		}
		return
	}
	if after.Operations > before.Operations {
		for _, d := range after.Devices {
			if d.Op != nil && d.Op.Seq == after.Operations {
				m.unsent = d.Op.ID
			}
		}
	}
	if before.Phase != after.Phase {
		m.sinceChange = renewals{}
	}
	if before.Phase != after.Phase || step.Reason == MethodFailed || step.Reason == TaintRemoved {
		m.progress = progress{}
	}
	if step.Reason == PowerWaitOver { // readings ahead are for this phase
		return
	}
	for i := range m.devices { // spent for this decision; proofs stay useful
		if s := &m.devices[i]; s.power != agent.PowerOff {
			s.power = ""
		}
	}
}

func (m *Memory) saw(o Outcome) {
	m.node, m.looked, m.present = o.Node, o.Began, true
	m.sinceChange.see(o.Node)
	m.sinceRead.see(o.Node)
}

func (m *Memory) read(step Read, o Outcome) {
	m.sinceRead = renewals{}
	for i, name := range step.Devices {
		s := m.readingOf(name)
		power := agent.PowerUnknown
		if i < len(o.Powers) {
			power = o.Powers[i]
		}
		again := power == agent.PowerOff && s.power == power
		s.twice = again && (s.twice || o.Began.SinceAtLeast(s.at) >= apart)
		if !again {
			s.first = o.Ended.Wall
		}
		s.power, s.began, s.at = power, o.Began, o.Ended
	}
}

func (m *Memory) called(step Call, o Outcome) {
	m.sinceChange, m.sinceRead, m.unsent = renewals{}, renewals{}, ""
	for i := range m.devices { // the state of the machine may have changed for all of them
		m.devices[i].power, m.devices[i].twice = "", false
	}
	s := m.readingOf(step.Device)
	s.called, s.quiet = true, o.Ended
	if o.Sent {
		s.sent = step.Op.ID
	}
}

func (m *Memory) released(step Release, o Outcome) {
	p := &m.progress
	switch step.Part {
	case Taint:
		p.tainted = !o.Left
	case DeletePods:
		p.deleted, p.emptied, p.pods = !o.Left, o.Ended, o.Pods
	case AwaitDetach:
		p.detached, p.awaited = !o.Left, o.Ended
	case Untaint:
		p.untainted, p.freed = !o.Left, o.Ended
	}
}

func (m *Memory) readingOf(device string) *deviceReading {
	for i := range m.devices {
		if m.devices[i].device == device {
			return &m.devices[i]
		}
	}
	m.devices = append(m.devices, deviceReading{device: device})
	return &m.devices[len(m.devices)-1]
}

// seen returns what is known about a device.
func (m *Memory) seen(device string) deviceReading {
	for _, s := range m.devices {
		if s.device == device {
			return s
		}
	}
	return deviceReading{device: device}
}
