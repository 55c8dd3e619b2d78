package statemachine

import (
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// releasing releases the workloads of a machine that was proved to have no power, part by part.
// Before each part everything is proved again, because another person may have switched the machine
// on.
func (t transition) releasing() Step {
	done := &t.Memory.progress
	ours := t.s.Taints.OutOfService == v1alpha1.TaintOurs
	// the only thing left to do to the node is to remove our taint
	awaiting := done.deleted && (done.tainted || !ours)
	detached := awaiting && t.s.Wait != nil &&
		(done.detached || t.left(t.Plan.DetachTimeout) == 0)
	switch rest := podLag - t.Now.SinceAtLeast(done.emptied); {
	case done.untainted && !detached: // while the fence was paused: set it again
		return t.untaint()
	case done.untainted:
		return t.freed(func() Step { return t.workloadsFreed() })
	case done.deleted && !awaiting && rest > 0:
		return Wait{For: rest, Why: "other controllers have to see that the pods are gone"}
	}
	age := proofWithin
	if awaiting {
		age = recent
	}
	from, step := t.proof(age)
	if step != nil {
		return step
	}
	begin := deadline{from, proofWithin}
	switch {
	case t.s.Released == v1alpha1.ReleasedNo, t.s.Taints.OutOfService == v1alpha1.TaintNone:
		// From here on, our taint may be on the node, and pods may be deleted.
		return t.write(ReleaseBegun, func(s *v1alpha1.Status) {
			s.Released, s.Taints.OutOfService, s.Wait = v1alpha1.ReleasedBegun, v1alpha1.TaintOurs, nil
			if t.Memory.node.OutOfService == v1alpha1.TaintForeign {
				s.Taints.OutOfService = v1alpha1.TaintForeign
			}
		})
	case !done.deleted:
		return Release{Part: DeletePods, begin: begin}
	case !awaiting:
		return Release{Part: Taint, begin: begin}
	case t.s.Wait == nil:
		return t.write(PodsDeleted, func(s *v1alpha1.Status) {
			s.Pods = done.pods
			t.give(v1alpha1.WaitDetach)(s)
		})
	case !detached:
		const every = time.Second
		if age := t.Now.SinceAtLeast(done.awaited); done.awaited != (clock.Reading{}) && age < every {
			return Wait{For: every - age, Why: "volumes are being detached"}
		}
		return Release{Part: AwaitDetach}
	}
	if ours {
		return Release{Part: Untaint}
	}
	return t.workloadsFreed()
}

func (t transition) workloadsFreed() Step {
	return t.enter(WorkloadsFreed, v1alpha1.PhaseRestoring, func(s *v1alpha1.Status) {
		s.Released, s.Abort = v1alpha1.ReleasedDone, v1alpha1.AbortNone
		if s.Taints.OutOfService == v1alpha1.TaintOurs {
			s.Taints.OutOfService = v1alpha1.TaintNone
		}
	})
}

// freed waits until the caches of other controllers no longer have our taint.
func (t transition) freed(then func() Step) Step {
	if passed := t.Now.SinceAtLeast(t.Memory.progress.freed); passed < watchLag {
		return Wait{For: watchLag - passed, Why: "other controllers have to see that the taint is gone"}
	}
	return then()
}

// proof returns since when it is known that the machine has no power, and that the node neither
// works nor belongs to another machine. Otherwise it returns the step that finds out, or that ends
// the release.
func (t transition) proof(within time.Duration) (clock.Reading, Step) {
	_, devices := t.level()
	manual := t.confirmed()
	if !manual {
		if step := t.repinned(); step != nil {
			return clock.Reading{}, step
		}
	}
	p := t.pass(devices)
	switch {
	case p.on, !manual && !t.off(devices):
		return clock.Reading{}, t.abort(Contradicted, v1alpha1.AbortGaveUp)
	case p.unknown && !manual:
		if step := t.unreadable(p.oldest); step != nil {
			return clock.Reading{}, step
		}
		if t.s.Retries+1 >= t.Plan.Retries {
			return clock.Reading{}, t.abort(PassUnread, v1alpha1.AbortGaveUp)
		}
		return clock.Reading{}, t.write(PassUnread, func(s *v1alpha1.Status) { s.Retries++ })
	case len(devices) > 0 && (p.missing || p.age > within):
		return clock.Reading{}, p.read
	}
	n, step := t.present(within)
	switch {
	case step != nil:
		return clock.Reading{}, step
	case n.Ready:
		return clock.Reading{}, t.abort(Returned, v1alpha1.AbortNodeReady)
	}
	if len(devices) > 0 && p.age > t.Now.SinceAtMost(t.Memory.looked) {
		return p.oldest, nil
	}
	return t.Memory.looked, nil
}

// confirmed reports whether an admin has confirmed in this incident that the machine has no power.
func (t transition) confirmed() bool {
	for _, e := range t.s.Evidence {
		if e.Source == v1alpha1.SourceManual {
			return true
		}
	}
	return false
}

// releaseStorage releases the pods whose storage the node can no longer reach. It returns nil when
// they are released.
func (t transition) releaseStorage(devices []*nodeplan.Device) Step {
	if len(devices) == 0 || t.s.StorageReleased == v1alpha1.ReleasedDone {
		return nil
	}
	p := t.pass(devices)
	switch {
	case p.on:
		return t.abort(Contradicted, v1alpha1.AbortGaveUp)
	case p.unknown:
		if step := t.unreadable(p.oldest); step != nil {
			return step
		}
		if t.s.Retries+1 >= t.Plan.Retries {
			return t.fail(IsolationFailed)
		}
		return t.write(PassUnread, func(s *v1alpha1.Status) { s.Retries++ })
	case p.missing, p.age > proofWithin:
		return p.read
	}
	n, look := t.node(proofWithin)
	switch {
	case look != nil:
		return look
	case n.Ready: // its pods may be writing: they are not released, and its storage stays cut off
		return t.hold("NodeReady", "the node is Ready: the pods that use the storage it cannot reach are not released",
			0)
	case t.s.StorageReleased == v1alpha1.ReleasedNo:
		return t.write(StorageCut, func(s *v1alpha1.Status) { s.StorageReleased = v1alpha1.ReleasedBegun })
	case !t.Memory.progress.deleted:
		from := t.Memory.looked
		if p.age > t.Now.SinceAtMost(from) {
			from = p.oldest
		}
		return Release{Part: DeletePods, Storage: keysOf(devices), begin: deadline{from, proofWithin}}
	}
	return t.write(StorageFreed, func(s *v1alpha1.Status) {
		s.StorageReleased, s.Pods = v1alpha1.ReleasedDone, t.Memory.progress.pods
	})
}
