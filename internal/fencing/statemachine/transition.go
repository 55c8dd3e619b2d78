package statemachine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Maximum ages of what decisions rest on, and intervals.
const (
	// callWithin is the maximum age of a look at the node when a command begins.
	callWithin = 2 * time.Second
	// proofWithin is the maximum age of a look and of a reading of every feed when a pod is
	// deleted.
	proofWithin = time.Second
	// apart is the time between two readings that count as two.
	apart = 500 * time.Millisecond
	// recent is the maximum age of a reading that proves nothing by itself.
	recent = 10 * time.Second
	// readAhead is how long before the power may be taken its devices are read: less than recent,
	// by the time that the policy and the record may take.
	readAhead = 5 * time.Second
	// readAgain is the pause after a device could not be read.
	readAgain = 5 * time.Second
	// fallbackAfter bounds how long a device may take to obey if there is another level.
	fallbackAfter = 2 * time.Second
	// lookEvery is how often a node is looked at while it may return, and lookSeldom while nothing
	// waits for it.
	lookEvery  = 10 * time.Second
	lookSeldom = time.Minute
	// podLag is the time after which other controllers have seen that pods are gone. A controller
	// that evicts pods because of a taint deletes those in its cache by name.
	podLag = 250 * time.Millisecond
	// watchLag is how long the caches of other controllers may still show a removed taint.
	watchLag = 2 * time.Second
)

// Transition returns the next step of a fence. Execute it, add its outcome to the memory, and call
// Transition again. It depends on its input only, and changes nothing. The plan must be valid; see
// [Validate].
//
// Each write has the resource version of the record that was the input, so that it fails after a
// change by an admin or by another process.
func Transition(in Input) Step {
	t := transition{Input: in, s: &in.Fence.Status}
	if step := t.admin(); step != nil {
		return step
	}
	if step := t.trouble(); step != nil {
		return step
	}
	return t.phase()
}

func (t transition) phase() Step {
	switch t.s.Phase {
	case "":
		return t.detect()
	case v1alpha1.PhaseDetected:
		return t.detected()
	case v1alpha1.PhaseIsolating:
		return t.isolating()
	case v1alpha1.PhaseIsolated:
		return t.isolated()
	case v1alpha1.PhasePowering:
		return t.powering()
	case v1alpha1.PhaseVerifying:
		return t.verifying()
	case v1alpha1.PhaseReleasing:
		return t.releasing()
	case v1alpha1.PhaseRestoring:
		return t.restoring()
	case v1alpha1.PhaseBooting:
		return t.booting()
	case v1alpha1.PhaseRecovering:
		return t.recovering()
	case v1alpha1.PhaseError:
		return t.failed()
	case v1alpha1.PhaseGivenUp:
		return t.givenUp()
	case v1alpha1.PhaseFinal:
		return t.final()
	case v1alpha1.PhaseCommissioning:
		return t.commissioning()
	}
	// A later version of this program has written it, and must continue it.
	return Wait{Why: fmt.Sprintf("the phase %q is not known to this version", t.s.Phase)}
}

// transition is one decision.
type transition struct {
	Input
	s *v1alpha1.Status // the input, never changed
}

// write returns the step that writes the changed status.
func (t transition) write(reason Reason, change func(*v1alpha1.Status)) Step {
	s := t.s.DeepCopy()
	change(s)
	conclude(s, t.Now.Wall)
	return Write{Reason: reason, Status: *s}
}

// enter returns the write that enters a phase.
func (t transition) enter(reason Reason, phase v1alpha1.Phase, changes ...func(*v1alpha1.Status)) Step {
	return t.write(reason, func(s *v1alpha1.Status) {
		enter(s, phase)
		for _, change := range changes {
			change(s)
		}
	})
}

// abort returns the write that enters Restoring before the workloads were released. A stop is
// permanent: later reasons do not replace it, and if it leaves devices off, no device is switched
// on.
func (t transition) abort(reason Reason, why v1alpha1.Abort, changes ...func(*v1alpha1.Status)) Step {
	if stopped(t.s.Abort) {
		why = v1alpha1.AbortStopHold
	}
	return t.enter(reason, v1alpha1.PhaseRestoring, append(changes, func(s *v1alpha1.Status) { s.Abort = why })...)
}

// give returns a change that starts a wait.
func (t transition) give(kind v1alpha1.WaitKind) func(*v1alpha1.Status) {
	since := metav1.NewMicroTime(t.Now.Wall.Truncate(time.Microsecond)) // as it is stored
	return func(s *v1alpha1.Status) { s.Wait = &v1alpha1.Wait{Kind: kind, Since: since} }
}

// left returns the rest of the wait in the record, by the clock of this process since it has had
// the wait. If another process has begun the wait, more may have passed by the wall clocks. This
// process waits for the whole time at most.
func (t transition) left(whole time.Duration) time.Duration {
	if t.s.Wait == nil {
		return 0
	}
	passed := t.Now.SinceAtLeast(t.Memory.waits)
	if !t.Memory.hasBegun(t.s.Wait) {
		passed = max(passed, t.Now.Wall.Sub(t.s.Wait.Since.Time))
	}
	return whole - min(whole, max(0, passed))
}

// hold returns the write that records why nothing happens, or the wait for a change if the record
// has that already. Another message for the same reason is written now and then; messages that
// differ only in numbers are the same.
func (t transition) hold(reason, message string, wait time.Duration) Step {
	since := metav1.NewTime(t.Now.Wall.Truncate(time.Second))
	h := t.s.Hold
	if h != nil && h.Reason == t.Trouble.Reason { // it must end first
		return Wait{For: or(wait, lookEvery), Why: message}
	}
	same := h != nil && h.Reason == reason
	if same {
		since = h.Since
		same = wordsOf(h.Message) == wordsOf(message) || t.Now.SinceAtLeast(t.Memory.held) < lookSeldom
	}
	if !same {
		return t.write(
			Held,
			func(s *v1alpha1.Status) { s.Hold = &v1alpha1.Hold{Reason: reason, Message: message, Since: since} },
		)
	}
	return Wait{For: or(wait, lookEvery), Why: message}
}

// trouble returns the write that records that this process makes no progress, unless the record has
// that. The fence continues, because the next try may succeed.
func (t transition) trouble() Step {
	trouble := t.Trouble
	if trouble.Reason == "" || t.s.Phase == "" || t.s.Phase.Ended() ||
		t.s.Hold != nil && t.s.Hold.Reason == trouble.Reason {
		return nil
	}
	return t.write(Held, func(s *v1alpha1.Status) {
		s.Hold = &v1alpha1.Hold{
			Reason: trouble.Reason, Message: trouble.Message, Since: metav1.NewTime(t.Now.Wall.Truncate(time.Second)),
		}
	})
}

// wordsOf returns a message without its numbers.
func wordsOf(message string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, message)
}

// node returns the node from a look that began at most age ago and after the last write, or the
// step that looks.
func (t transition) node(age time.Duration) (Node, Step) {
	m := &t.Memory
	if !m.present || t.Now.SinceAtMost(m.looked) > age {
		return Node{}, Look{}
	}
	return m.node, nil
}

// present is like node, but returns the step that ends the fence if the node is gone, because pods
// of a node of its name may be another machine's.
func (t transition) present(age time.Duration) (Node, Step) {
	n, step := t.node(age)
	if step == nil && t.gone(n) {
		step = t.abort(NodeGone, v1alpha1.AbortNodeGone)
	}
	return n, step
}

// gone reports whether the fenced machine no longer has a node. It may now belong to another node.
func (t transition) gone(n Node) bool { return n.Missing || n.Leaving || n.UID != t.s.NodeUID }

// cleared reports whether the reason for the fence is over.
func (t transition) cleared(n Node) bool { return n.Ready && !n.Failing }

// spared reports whether the node must keep its power and its pods.
func (t transition) spared(n Node) bool { return t.cleared(n) || n.Ready && !t.FenceReadyNodes }

// back reports whether the node works: its Lease was renewed between two looks in this phase, after
// the last command, so that its conditions are not from before it lost its power.
func (t transition) back(n Node) bool {
	return !t.gone(n) && t.cleared(n) && t.Memory.sinceChange.renewed
}

// returned ends a fence whose node works again or must be spared. What was switched off is restored
// first.
func (t transition) returned(reason Reason, changes ...func(*v1alpha1.Status)) Step {
	s := t.s.DeepCopy()
	for _, change := range changes {
		change(s)
	}
	for _, d := range s.Devices {
		if d.Touched && d.State != v1alpha1.DeviceOn && d.State != v1alpha1.DeviceUntouched {
			return t.abort(reason, v1alpha1.AbortNodeReady, changes...)
		}
	}
	if s.Taints.OutOfService == v1alpha1.TaintOurs {
		return t.abort(reason, v1alpha1.AbortNodeReady, changes...)
	}
	return t.enter(
		reason,
		v1alpha1.PhaseRecovering,
		append(changes, func(s *v1alpha1.Status) { s.Abort = v1alpha1.AbortNodeReady })...)
}

// allowed returns nil if the policy allows, otherwise a step.
func (t transition) allowed(a *policy.Decision) Step {
	switch {
	case a == nil, a.Verdict == policy.Allow:
		return nil
	case a.Verdict == policy.Deny:
		return t.abort(Denied, v1alpha1.AbortGaveUp, t.set(v1alpha1.ConditionDenied, or(a.Reason, "Policy"), a.Message))
	}
	return t.hold(or(a.Reason, "Policy"), a.Message, a.After)
}

// touched reports whether a command to switch something off may have been sent in this incident.
func (t transition) touched() bool {
	return slices.ContainsFunc(t.s.Devices, func(d v1alpha1.Device) bool { return d.Touched })
}

// level returns the number of the level in use, from 1, and its devices.
func (t transition) level() (int32, []*nodeplan.Device) {
	n := max(1, t.s.Level)
	if int(n) > len(t.Plan.PowerManagement) {
		return n, nil
	}
	return n, devicesOf(t.Plan.PowerManagement[n-1])
}

// further reports whether there is a level after the one in use.
func (t transition) further() bool { return int(max(1, t.s.Level)) < len(t.Plan.PowerManagement) }

// levelFails continues with the next level, or with Error.
func (t transition) levelFails(reason Reason) Step {
	if t.further() {
		return t.enter(NextLevel, v1alpha1.PhasePowering, func(s *v1alpha1.Status) { s.Level = max(1, s.Level) + 1 })
	}
	return t.fail(reason)
}

// fail enters Error. A fence that an admin has stopped ends instead, and so does a commission,
// which never becomes a fence.
func (t transition) fail(reason Reason) Step {
	if stopped(t.s.Abort) || t.s.Commission != nil {
		return t.enter(reason, v1alpha1.PhaseGivenUp)
	}
	return t.enter(reason, v1alpha1.PhaseError, t.give(v1alpha1.WaitRestartDelay))
}

// pinned returns nil if the plan has the plugs that this incident began with, otherwise a step.
func (t transition) pinned() Step {
	if step := t.resolved(); step != nil {
		return step
	}
	if t.s.ConfigHash == "" || t.s.ConfigHash == t.Plan.Hash {
		return nil
	}
	return t.hold(
		"ConfigurationChanged",
		"the plugs are not those with which this incident began, or are switched in another way: put the "+
			"configuration back, confirm that the machine is off, or stop the fence",
		0,
	)
}

// resolved returns nil if there is a plan, otherwise a step.
func (t transition) resolved() Step {
	if t.Unresolved == "" {
		return nil
	}
	return t.hold("NotConfigured", t.Unresolved, 0)
}

// operation returns the next operation. Jobs of the controller have its ID as their name. It has
// the UID of the record, because the next record of the node counts incidents and operations from 1
// again, and the Job of another operation must not be mistaken for its own.
func (t transition) operation(action agent.Action, d *nodeplan.Device) v1alpha1.Op {
	uid := strings.ReplaceAll(string(t.Fence.UID), "-", "")
	seq := t.s.Operations + 1
	return v1alpha1.Op{
		ID:     fmt.Sprintf("fence-%s-%d-%d", uid[:min(10, len(uid))], t.s.Incident, seq),
		Action: action, Seq: seq, DeadlineSeconds: int32(d.Timeout / time.Second),
	}
}

// reading reports whether a device was read at most age ago.
func (t transition) reading(name string, age time.Duration) (deviceReading, bool) {
	s := t.Memory.seen(name)
	return s, s.power != "" && t.Now.SinceAtMost(s.at) <= age
}

// quietFor returns how long no command of this or an earlier process was under way to a device.
func (t transition) quietFor(now clock.Reading, s deviceReading) time.Duration {
	if s.called {
		return now.SinceAtLeast(s.quiet)
	}
	return now.SinceAtLeast(t.Memory.since)
}

func readings(s deviceReading) []v1alpha1.Reading {
	last := v1alpha1.Reading{Power: s.power, At: metav1.NewMicroTime(s.at.Wall)}
	if !s.twice {
		return []v1alpha1.Reading{last}
	}
	return []v1alpha1.Reading{{Power: s.power, At: metav1.NewMicroTime(s.first)}, last}
}
