package statemachine

import (
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// booting waits for the node of a machine with power to report.
func (t transition) booting() Step {
	n, step := t.present(lookEvery / 2)
	switch {
	case step != nil:
		return step
	case t.back(n):
		return t.enter(NodeBack, v1alpha1.PhaseRecovering)
	}
	if left := t.left(t.Plan.BootGrace); left > 0 {
		return Wait{For: min(left, lookEvery), Why: "the machine starts"}
	}
	if t.s.Commission != nil && t.cleared(n) && t.Now.SinceAtLeast(t.Memory.since) < lookSeldom {
		// It may have been back for long without a look.
		return Wait{For: lookEvery / 2, Why: "the node is shown Ready, and has to renew its Lease"}
	}
	return t.fail(BootGraceOver)
}

// recovering executes the methods of the recovery step while the node works.
func (t transition) recovering() Step {
	n, step := t.present(lookEvery / 2)
	switch {
	case step != nil:
		return step
	case !t.cleared(n):
		return t.enter(LostAgain, v1alpha1.PhaseBooting, t.give(v1alpha1.WaitBootGrace))
	case !t.back(n):
		return Wait{For: lookEvery / 2, Why: "the node is shown Ready, and has to renew its Lease"}
	}
	if t.s.Commission != nil {
		return t.commissioned(n)
	}
	if t.s.Taints == (v1alpha1.Taints{}) && len(t.s.Devices) == 0 && t.s.Released == v1alpha1.ReleasedNo {
		// Nothing was done, so nothing must be undone, which needs no configuration.
		return t.enter(Recovered, v1alpha1.PhaseFinal)
	}
	if step := t.resolved(); step != nil {
		return step
	}
	done := &t.Memory.progress
	if done.failed != "" {
		if t.s.Retries+1 >= t.Plan.Retries {
			return t.fail(RecoveryFailed)
		}
		return t.write(MethodFailed, func(s *v1alpha1.Status) { s.Retries++ })
	}
	methods := 0
	act := func(name string) Step {
		if methods++; methods > done.methods {
			return Act{name}
		}
		return nil
	}
	for _, m := range t.Plan.Recovery {
		if m.Device == nil {
			if m.Name == nodeplan.MarkSchedulable { // last
				continue
			}
			if step := act(m.Name); step != nil {
				return step
			}
			continue
		}
		rec := device(t.s, m.Device.Key)
		if rec == nil {
			continue
		}
		if step := t.restore(*rec); step != nil {
			return step
		}
		if rec.State == v1alpha1.DeviceLeftOff {
			return t.fail(RecoveryFailed)
		}
	}
	for _, rec := range t.s.Devices { // whatever the methods, no device stays off
		if step := t.restore(rec); step != nil {
			return step
		}
		if rec.State == v1alpha1.DeviceLeftOff {
			return t.fail(RecoveryFailed)
		}
	}
	// mark-unschedulable as the recovery, as in an old example, has its literal meaning.
	keepsTaint := t.Plan.Recovery.Has(nodeplan.MarkUnschedulable)
	if !keepsTaint {
		if step := act(nodeplan.MarkSchedulable); step != nil {
			return step
		}
	}
	return t.enter(
		Recovered,
		v1alpha1.PhaseFinal,
		func(s *v1alpha1.Status) { s.Taints.Fence = keepsTaint && s.Taints.Fence },
	)
}

// failed restarts the flow, as often as configured. Proofs stay, so that a device that was off is
// not switched off again.
func (t transition) failed() Step {
	n, step := t.present(lookEvery / 2)
	switch {
	case step != nil:
		return step
	case t.back(n):
		return t.abort(Returned, v1alpha1.AbortNodeReady)
	}
	if step := t.rest(t.Plan.RestartDelay, "the flow starts again"); step != nil {
		return step
	}
	if t.s.Restarts >= t.Plan.Restarts {
		return t.abort(RestartsUsedUp, v1alpha1.AbortGaveUp)
	}
	return t.enter(FlowRestarted, v1alpha1.PhaseDetected, func(s *v1alpha1.Status) {
		s.Restarts++
		s.Level, s.Abort = 0, v1alpha1.AbortNone
		for i := range s.Devices {
			s.Devices[i].Tries = 0
		}
	})
}
