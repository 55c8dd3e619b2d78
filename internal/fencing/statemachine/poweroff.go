package statemachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// switchOff returns the next step to switch a device off, or nil if it was read off in this
// incident. failed returns the step for a device that cannot be switched off. With further, another
// device can replace it, and failed is called at once when it does not go off.
func (t transition) switchOff(d *nodeplan.Device, level int32, further bool, failed func(Reason) Step) Step {
	rec := recorded(t.s, d.Key)
	switch {
	case rec.State == v1alpha1.DeviceOff:
		return nil
	case rec.State == v1alpha1.DeviceOffIntent && rec.Op.ID == t.Memory.unsent:
		return t.sendOff(rec, level)
	case rec.State == v1alpha1.DeviceOffIntent:
		return t.afterOffCommand(d, rec, further, failed)
	case rec.SeenOff, rec.Restores > 0, rec.Tries >= t.Plan.Retries:
		// The device was or may have been off in this incident, and is on, so another person has
		// switched it on. It is not used again.
		return failed(PowerFailed)
	}
	if step := t.pinned(); step != nil {
		return step
	}
	if !rec.Touched {
		before, ok := t.reading(d.Key, recent)
		if !ok {
			return Read{[]string{d.Key}}
		}
		switch {
		case before.power == agent.PowerOff && !d.OffIsProof:
			return failed(OffUnclear)
		case before.power == agent.PowerOff && !t.Known[d.Key]:
			return failed(PowerFailed)
		case before.power == agent.PowerUnknown && further: // it could neither prove anything nor be restored
			return failed(OffUnread)
		}
	}
	n, step := t.present(callWithin)
	switch {
	case step != nil:
		return step
	case t.returnedBeforeCommand(level, n):
		return t.returned(Returned)
	}
	if level > 0 && !t.powerTouched() {
		if step := t.releaseDumpPods(n); step != nil {
			return step
		}
		if step := t.awaitDumpEnd(n); step != nil {
			return step
		}
	}
	if !t.touched() {
		if step := t.allowed(t.Policy.Admit); step != nil {
			return step
		}
	}
	if step := t.allowed(t.Policy.Continue); step != nil {
		return step
	}
	return t.intend(OffIntent, d, level, agent.ActionOff)
}

// intend records a command before it is sent.
func (t transition) intend(reason Reason, d *nodeplan.Device, level int32, action agent.Action) Step {
	op, before := t.operation(action, d), t.Memory.seen(d.Key).power
	return t.write(reason, func(s *v1alpha1.Status) {
		rec := device(s, d.Key)
		if rec == nil {
			s.Devices = append(s.Devices, v1alpha1.Device{Device: d.Key, Level: level})
			rec = &s.Devices[len(s.Devices)-1]
		}
		if action == agent.ActionOff {
			if !t.touched() && s.Commission == nil {
				s.Problems.Starts = append(slices.Clone(s.Problems.Starts), metav1.NewMicroTime(t.Now.Wall))
				s.Problems.Starts = s.Problems.Starts[max(0, len(s.Problems.Starts)-maxStarts):]
			}
			rec.FoundOff = rec.FoundOff || !rec.Touched && before == agent.PowerOff
			rec.State, rec.Touched = v1alpha1.DeviceOffIntent, true
			rec.Tries++
			s.ConfigHash = t.Plan.Hash
			s.Hold = nil
		} else {
			rec.State = v1alpha1.DeviceOnIntent
			rec.Restores++
		}
		rec.Op = &op
		s.Operations = op.Seq
		s.Jobs = append(s.Jobs, op.ID)
		s.Jobs = s.Jobs[max(0, len(s.Jobs)-maxJobs):]
		s.Retries = max(s.Retries, rec.Tries)
	})
}

// sendOff sends the command that this process has just recorded, unless the node has returned
// since.
func (t transition) sendOff(rec v1alpha1.Device, level int32) Step {
	n, look := t.node(callWithin)
	switch {
	case look != nil:
		return look
	case t.gone(n):
		return t.abort(IntentCancelled, v1alpha1.AbortNodeGone, cancel(rec.Device))
	case t.returnedBeforeCommand(level, n):
		return t.returned(IntentCancelled, cancel(rec.Device))
	}
	return t.call(rec)
}

// returnedBeforeCommand reports whether the node forbids commands to the devices of a level. Those
// of the isolation step do not take its power.
func (t transition) returnedBeforeCommand(level int32, n Node) bool {
	if level == 0 {
		return t.cleared(n)
	}
	return t.spared(n)
}

func (t transition) call(rec v1alpha1.Device) Step {
	return Call{Device: rec.Device, Op: *rec.Op, begin: deadline{t.Memory.looked, callWithin}}
}

// cancel removes a command that was recorded but not sent. The device counts as touched, so it is
// read before the fence ends.
func cancel(name string) func(*v1alpha1.Status) {
	return func(s *v1alpha1.Status) {
		d := device(s, name)
		d.State, d.Op = v1alpha1.DeviceSeenOn, nil
	}
}

// afterOffCommand finds out the effect of a command to switch off, sent by this process or an
// earlier one. The answer to the command does not count.
func (t transition) afterOffCommand(
	d *nodeplan.Device, rec v1alpha1.Device, further bool, failed func(Reason) Step,
) Step {
	seen, ok := t.reading(d.Key, recent)
	if !ok {
		return Read{[]string{d.Key}}
	}
	if seen.power == agent.PowerOff && proves(d, rec, seen) {
		return t.offSeen(d.Key, seen)
	}
	patience := d.Poll
	if further {
		patience = min(patience, fallbackAfter)
	}
	if step := t.pollUntilOff(d, seen, patience); step != nil {
		return step
	}
	if further {
		return failed(OffUnread)
	}
	if step := t.quiet(d, rec, seen); step != nil {
		if wait, ok := step.(Wait); ok {
			wait.Watch = []string{d.Key}
			return wait
		}
		return step
	}
	if seen.power == agent.PowerOn {
		return t.write(OffSpent, func(s *v1alpha1.Status) {
			rec := device(s, d.Key)
			rec.State, rec.Op, rec.FoundOff = v1alpha1.DeviceSeenOn, nil, false
		})
	}
	if seen.power == agent.PowerOff {
		return failed(OffUnclear)
	}
	if step := t.unreadable(seen.at); step != nil {
		return step
	}
	if rec.Tries >= t.Plan.Retries {
		return failed(OffUnread)
	}
	return t.write(OffUnread, func(s *v1alpha1.Status) {
		rec := device(s, d.Key)
		rec.Tries++
		s.Retries = max(s.Retries, rec.Tries)
	})
}

// proves reports whether a reading of off after a command proves that the machine is off.
func proves(d *nodeplan.Device, rec v1alpha1.Device, seen deviceReading) bool {
	return d.OffIsProof || rec.Op != nil && rec.Op.ID == seen.sent
}

// offSeen records that a device reads off after a command: the command has taken effect, and no
// other can be under way.
func (t transition) offSeen(name string, seen deviceReading) Step {
	if !seen.twice {
		if age := t.Now.SinceAtLeast(seen.at); age < apart {
			return Wait{For: apart - age, Why: "a device is read twice", Next: []string{name}}
		}
		return Read{[]string{name}}
	}
	return t.write(OffSeen, func(s *v1alpha1.Status) {
		rec := device(s, name)
		e := v1alpha1.Evidence{Device: name, Readings: readings(seen), Source: v1alpha1.SourceAgent}
		if rec.Op != nil {
			e.Op = rec.Op.ID
		}
		prove(s, e)
		rec.State, rec.SeenOff, rec.Op = v1alpha1.DeviceOff, true, nil
	})
}

// unreadable waits until a device that could not be read has had time to recover. Then it returns
// nil, and the try counts.
func (t transition) unreadable(at clock.Reading) Step {
	if age := t.Now.SinceAtMost(at); age < readAgain {
		return Wait{For: readAgain - age, Why: "a device cannot be read"}
	}
	return nil
}

// pollUntilOff returns nil if a reading was taken so long after the command that it counts even if
// nothing has changed.
func (t transition) pollUntilOff(d *nodeplan.Device, seen deviceReading, patience time.Duration) Step {
	if t.quietFor(seen.began, seen) >= patience {
		return nil
	}
	if age := t.Now.SinceAtLeast(seen.at); age < apart {
		return Wait{For: apart - age, Why: "a device needs a moment", Next: []string{d.Key}}
	}
	return Read{[]string{d.Key}}
}

// quiet returns nil if a reading was taken when no command could be under way. The agent of an
// earlier process may have outlived it, for as long as its call had.
func (t transition) quiet(d *nodeplan.Device, rec v1alpha1.Device, seen deviceReading) Step {
	settle := d.Settle
	if !seen.called {
		settle += t.callOf(d, rec)
	}
	if seen.power != "" && t.quietFor(seen.began, seen) >= settle {
		return nil
	}
	if left := settle - t.quietFor(t.Now, seen); left > 0 {
		return Wait{For: left, Why: "a command may still be under way"}
	}
	return Read{[]string{d.Key}}
}

// rest returns nil if a wait before the power is taken is over, otherwise a step. The wait is also
// over when all devices of a level read off that did not when it began, such as cloud instances
// that stop slowly. That proves nothing, but the wait no longer has a purpose.
func (t transition) rest(whole time.Duration, why string) Step {
	left := t.left(whole)
	if left <= 0 {
		return nil
	}
	wait := Wait{For: min(left, lookEvery), Why: why}
	for _, level := range t.Plan.PowerManagement {
		landed, open := true, false
		for _, d := range devicesOf(level) {
			switch recorded(t.s, d.Key).State {
			case v1alpha1.DeviceOff:
			case v1alpha1.DeviceOffIntent:
				open = true
				wait.Watch = append(wait.Watch, d.Key)
				seen, ok := t.reading(d.Key, recent)
				landed = landed && ok && seen.power == agent.PowerOff
			default:
				landed = false
			}
		}
		if landed && open {
			return nil
		}
	}
	return wait
}

// callOf returns the maximum duration of another process's call to a device.
func (t transition) callOf(d *nodeplan.Device, rec v1alpha1.Device) time.Duration {
	timeout := d.Timeout
	if rec.Op != nil {
		timeout = max(timeout, time.Duration(rec.Op.DeadlineSeconds)*time.Second)
	}
	return timeout
}

// powering switches off the devices of the level one by one.
func (t transition) powering() Step {
	number, devices := t.level()
	if len(devices) == 0 {
		// The level is no longer configured. An empty level must not count as "all devices off".
		if step := t.repinned(); step != nil {
			return step
		}
		return t.fail(PowerFailed)
	}
	for _, d := range devices {
		if step := t.switchOff(d, number, t.further(), func(reason Reason) Step {
			if reason == OffUnclear && !t.further() {
				return t.unclear(d)
			}
			return t.levelFails(reason)
		}); step != nil {
			return step
		}
	}
	return t.enter(AllOff, v1alpha1.PhaseVerifying)
}

// unclear waits for an admin, or for the node, while the device of a machine that may be suspended
// reads off.
func (t transition) unclear(d *nodeplan.Device) Step {
	n, step := t.present(lookEvery / 2)
	switch {
	case step != nil:
		return step
	case t.spared(n):
		return t.returned(Returned)
	}
	return t.hold(
		string(OffUnclear),
		"device "+d.Key+" reads off, and this fence has not switched it off: its agent also reads off for a machine "+
			"that can go on, such as one that is suspended. Switch the machine off at the device and confirm that it "+
			"is off, or have it go on",
		0,
	)
}
