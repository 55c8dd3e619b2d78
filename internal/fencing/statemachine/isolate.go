package statemachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// detect gives a new record its first status.
func (t transition) detect() Step {
	n, look := t.node(lookEvery / 2)
	if look != nil {
		return look
	}
	if t.Fence.Annotations[v1alpha1.AnnotationCommission] != "" && t.Trigger == nil {
		return t.write(CommissionBegun, func(s *v1alpha1.Status) {
			*s = v1alpha1.Status{}
			t.openCommission(s, n)
		})
	}
	return t.write(Begun, func(s *v1alpha1.Status) {
		*s = v1alpha1.Status{}
		t.open(s, n)
	})
}

// open begins an incident.
func (t transition) open(s *v1alpha1.Status, n Node) {
	identify(s, n)
	enter(s, v1alpha1.PhaseDetected)
	t.give(v1alpha1.WaitNotReadyFor)(s)
	trigger := v1alpha1.Trigger{
		Type: "Ready", Status: "Unknown",
		Since: metav1.NewTime(t.Now.Wall.Truncate(time.Second)),
	}
	if t.Trigger != nil {
		trigger = *t.Trigger
	}
	s.Triggers = []v1alpha1.Trigger{trigger}
	const window = time.Hour
	start := s.Problems.WindowStart
	if start == nil || t.Now.Wall.Sub(start.Time) > window || t.Now.Wall.Before(start.Time) {
		now := metav1.NewTime(t.Now.Wall.Truncate(time.Second))
		s.Problems = v1alpha1.Problems{WindowStart: &now, Starts: s.Problems.Starts}
	}
	s.Problems.Count++
}

// identify begins an incident with the present identity of the node.
func identify(s *v1alpha1.Status, n Node) {
	s.Incident++
	s.NodeUID, s.BootID, s.ProviderID = n.UID, n.BootID, n.ProviderID
}

// detected waits for the condition to last.
func (t transition) detected() Step {
	if _, step := t.failing(); step != nil {
		return step
	}
	if step := t.rest(t.Plan.NotReadyFor, "the condition has to last"); step != nil {
		return step
	}
	if step := t.resolved(); step != nil {
		return step
	}
	if !t.touched() {
		if step := t.allowed(t.Policy.Admit); step != nil {
			return step
		}
	}
	// From here on our taint may be on the node.
	return t.enter(NotReadyTimeout, v1alpha1.PhaseIsolating, func(s *v1alpha1.Status) { s.Taints.Fence = true })
}

// failing is common to the phases before power: it returns the node, or a step if the node is gone
// or works, or an admin restarts a fence that is held.
func (t transition) failing() (Node, Step) {
	n, step := t.present(lookEvery / 2)
	switch {
	case step != nil:
		return n, step
	case t.cleared(n):
		return n, t.returned(Returned)
	case t.s.Hold != nil && !t.touched() && t.restartAsked():
		return n, t.reopen(IncidentReopened, n, t.open)
	}
	return n, nil
}

// isolating executes the methods of the isolation step: first those of the cluster, then devices.
func (t transition) isolating() Step {
	if _, step := t.failing(); step != nil {
		return step
	}
	if step := t.resolved(); step != nil {
		return step
	}
	if failed := t.Memory.progress.failed; failed != "" && !t.optional(failed) {
		if t.s.Retries+1 >= t.Plan.Retries {
			return t.fail(IsolationFailed)
		}
		return t.write(MethodFailed, func(s *v1alpha1.Status) { s.Retries++ })
	}
	methods := t.isolation()
	if done := t.Memory.progress.methods; done < len(methods) {
		return Act{methods[done]}
	}
	var cut []*nodeplan.Device
	reachable := false // by a path that could not be cut
	for _, m := range t.Plan.Isolation {
		if m.Device == nil {
			continue
		}
		failed := false
		if step := t.switchOff(m.Device, 0, false, func(Reason) Step {
			failed = true
			return t.fail(IsolationFailed)
		}); step != nil {
			if failed && !m.MustSucceed {
				reachable = reachable || m.Storage
				continue
			}
			return step
		}
		if m.Storage {
			cut = append(cut, m.Device)
		}
	}
	if !reachable {
		if step := t.releaseStorage(cut); step != nil {
			return step
		}
	}
	return t.enter(NodeIsolated, v1alpha1.PhaseIsolated, t.give(v1alpha1.WaitPower))
}

// isolation returns the methods of the cluster. The fence's own taint is always the first.
func (t transition) isolation() []string {
	methods := []string{nodeplan.MarkUnschedulable}
	for _, m := range t.Plan.Isolation {
		if m.Device == nil && m.Name != nodeplan.MarkUnschedulable {
			methods = append(methods, m.Name)
		}
	}
	return methods
}

func (t transition) optional(method string) bool {
	return slices.ContainsFunc(t.Plan.Isolation, func(m nodeplan.Method) bool {
		return m.Name == method && !m.MustSucceed
	})
}

// isolated waits for the node to return.
func (t transition) isolated() Step {
	n, step := t.failing()
	if step != nil {
		return step
	}
	if step := t.releaseDumpPods(n); step != nil {
		return step
	}
	if step := t.rest(t.Plan.PowerWait, "the node may return by itself"); step != nil {
		return t.ahead(step)
	}
	if t.s.Released == v1alpha1.ReleasedDone {
		return t.enter(
			AlreadyReleased,
			v1alpha1.PhaseRestoring,
			reread,
			func(s *v1alpha1.Status) { s.Abort = v1alpha1.AbortNone },
		)
	}
	if step := t.resolved(); step != nil {
		return step
	}
	if t.spared(n) {
		return t.hold("NodeReady", "the node is Ready: its condition does not justify to take its power", 0)
	}
	if len(t.Plan.PowerManagement) == 0 {
		return t.hold(
			"NoPowerDevice",
			"no device can switch the machine off: confirm that it is without power, or repair it",
			0,
		)
	}
	if step := t.awaitDumpEnd(n); step != nil { // before this fence makes others wait
		return step
	}
	if !t.touched() {
		if step := t.allowed(t.Policy.Admit); step != nil {
			return step
		}
	}
	return t.enter(PowerWaitOver, v1alpha1.PhasePowering, func(s *v1alpha1.Status) { s.Level = 1 })
}

// ahead turns a wait before the power is taken into one in which the devices of the first level are
// read shortly before its end. They must be read before they are commanded, and the fence then need
// not wait for that.
func (t transition) ahead(step Step) Step {
	wait, ok := step.(Wait)
	if !ok || len(wait.Watch) > 0 || len(t.Plan.PowerManagement) == 0 {
		return step
	}
	var names []string
	for _, d := range devicesOf(t.Plan.PowerManagement[0]) {
		if _, read := t.reading(d.Key, recent); !read && !recorded(t.s, d.Key).Touched {
			names = append(names, d.Key)
		}
	}
	left := t.left(t.Plan.PowerWait)
	switch {
	case len(names) == 0:
	case left > readAhead:
		wait.For = min(wait.For, left-readAhead)
	default:
		wait.Ahead = names
	}
	return wait
}

// reread makes the fence restore every plug again that an earlier try has left.
func reread(s *v1alpha1.Status) {
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Touched && (d.State == v1alpha1.DeviceOn || d.State == v1alpha1.DeviceLeftOff) {
			d.State = v1alpha1.DeviceSeenOn
			if d.SeenOff {
				d.State = v1alpha1.DeviceOff
			}
		}
		d.Restores = 0
	}
}
