package statemachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

const (
	// dumpWithin is how old a message of a kernel that writes a dump may be when a pod is deleted
	// because of it. When the dump is written, the machine restarts by itself: from its last
	// message until its kubelet starts a container it takes longer than this.
	dumpWithin = 5 * time.Second
	// dumpOver is after how long without a message a dump has ended: three of those that
	// fence_kdump_send sends each 10 s.
	dumpOver = 30 * time.Second
)

// freeDumped releases the pods of a node whose kernel has stopped and writes a dump; nil: there are
// none to be released now. Its volumes are not: our out-of-service taint could be on the node when
// it comes back. All else is released when the machine has lost its power.
func (t transition) releaseDumpPods(n Node) Step {
	freed := t.Memory.progress.deleted
	switch {
	case !t.Plan.Kdump, t.s.Released != v1alpha1.ReleasedNo, t.s.DumpReleased == v1alpha1.ReleasedDone:
		return nil
	case freed && t.s.DumpReleased == v1alpha1.ReleasedBegun:
		return t.write(DumpPodsReleased, func(s *v1alpha1.Status) {
			s.DumpReleased, s.Pods = v1alpha1.ReleasedDone, t.Memory.progress.pods
		})
	case !t.heard(dumpWithin), n.Ready, n.BootID != t.s.BootID:
		return nil
	case t.Policy.Admit.Verdict != Allow, t.Policy.Continue.Verdict != Allow: // whichever it was asked for
		return nil
	case t.s.DumpReleased == v1alpha1.ReleasedNo:
		return t.write(DumpSeen, func(s *v1alpha1.Status) {
			s.DumpReleased = v1alpha1.ReleasedBegun
			prove(s, v1alpha1.Evidence{
				Device: t.Fence.Node, Source: v1alpha1.SourceKdump,
				Readings: []v1alpha1.Reading{{Power: v1alpha1.PowerOn, At: metav1.NewMicroTime(t.Dump.Wall)}},
			})
		})
	}
	if _, look := t.node(proofWithin); look != nil {
		return look
	}
	return Release{Part: DeletePods, begin: deadline{t.Memory.looked, proofWithin}}
}

// dumping waits for the end of a dump; nil: none keeps the power on.
func (t transition) awaitDumpEnd(n Node) Step {
	if !t.Plan.Kdump || t.powerTouched() || t.s.DumpReleased == v1alpha1.ReleasedNo && (n.Ready || !t.heard(dumpOver)) {
		return nil
	}
	left := dumpOver - t.Now.SinceAtLeast(t.lastOfDump())
	for _, e := range t.s.Evidence {
		if e.Source == v1alpha1.SourceKdump {
			passed := t.Now.Wall.Sub(e.Readings[0].At.Time)
			left = min(left, or(t.Plan.KdumpTimeout, DefaultKdumpTimeout)-max(0, passed))
		}
	}
	if left <= 0 {
		return nil
	}
	return Wait{For: min(left, lookEvery), Why: "the kernel writes a dump"}
}

// heard says that the kernel of the node has said in this incident, and at most age ago, that it
// writes a dump.
func (t transition) heard(age time.Duration) bool {
	return t.Plan.Kdump && t.dumpOfIncident() && t.Now.SinceAtMost(t.Dump) <= age
}

func (t transition) dumpOfIncident() bool {
	return t.Dump != (clock.Reading{}) && t.Dump.SinceAtLeast(t.Memory.begun) > 0
}

// lastOfDump is when the last message came. A process that has heard none, because the one before
// it has, gives it as much time as if it had come when it began.
func (t transition) lastOfDump() clock.Reading {
	if t.dumpOfIncident() {
		return t.Dump
	}
	return t.Memory.begun
}

// powerTouched says that a command to take the machine's power may have been sent in this incident.
func (t transition) powerTouched() bool {
	return slices.ContainsFunc(t.s.Devices, func(d v1alpha1.Device) bool { return d.Touched && d.Level > 0 })
}
