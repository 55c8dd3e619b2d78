package statemachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

const (
	// dumpWithin is the maximum age of a dump message when a pod is deleted because of it. The
	// machine reboots after the dump, and needs longer than that from its last message until its
	// kubelet starts a container.
	dumpWithin = 5 * time.Second
	// dumpOver is the time without a message after which a dump has ended: three times the 10 s
	// interval of fence_kdump_send.
	dumpOver = 30 * time.Second
)

// releaseDumpPods releases the pods of a node whose kernel has stopped and writes a dump. It
// returns nil if there are no pods to release now. Their volumes are released only when the machine
// has lost its power, because our out-of-service taint could be on the node when it comes back.
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
	case t.allowed(t.Policy.Admit) != nil, t.allowed(t.Policy.Continue) != nil: // whichever applies
		return nil
	case t.s.DumpReleased == v1alpha1.ReleasedNo:
		return t.write(DumpSeen, func(s *v1alpha1.Status) {
			s.DumpReleased = v1alpha1.ReleasedBegun
			prove(s, v1alpha1.Evidence{
				Device: t.Fence.Node, Source: v1alpha1.SourceKdump,
				Readings: []v1alpha1.Reading{{Power: agent.PowerOn, At: metav1.NewMicroTime(t.Dump.Wall)}},
			})
		})
	}
	if _, look := t.node(proofWithin); look != nil {
		return look
	}
	return Release{Part: DeletePods, begin: deadline{t.Memory.looked, proofWithin}}
}

// awaitDumpEnd waits for the end of a dump. It returns nil if no dump needs the power.
func (t transition) awaitDumpEnd(n Node) Step {
	if !t.Plan.Kdump || t.powerTouched() || t.s.DumpReleased == v1alpha1.ReleasedNo && (n.Ready || !t.heard(dumpOver)) {
		return nil
	}
	left := dumpOver - t.Now.SinceAtLeast(t.lastOfDump())
	for _, e := range t.s.Evidence {
		if e.Source == v1alpha1.SourceKdump {
			passed := t.Now.Wall.Sub(e.Readings[0].At.Time)
			left = min(left, t.Plan.KdumpTimeout-max(0, passed))
		}
	}
	if left <= 0 {
		return nil
	}
	return Wait{For: min(left, lookEvery), Why: "the kernel writes a dump"}
}

// heard reports whether a dump message of the node has arrived in this incident, at most age ago.
func (t transition) heard(age time.Duration) bool {
	return t.Plan.Kdump && t.dumpOfIncident() && t.Now.SinceAtMost(t.Dump) <= age
}

func (t transition) dumpOfIncident() bool {
	return t.Dump != (clock.Reading{}) && t.Dump.SinceAtLeast(t.Memory.begun) > 0
}

// lastOfDump returns the time of the last message, or the start of this process if an earlier one
// has received that.
func (t transition) lastOfDump() clock.Reading {
	if t.dumpOfIncident() {
		return t.Dump
	}
	return t.Memory.begun
}

// powerTouched reports whether a command that takes the machine's power may have been sent in this
// incident.
func (t transition) powerTouched() bool {
	return slices.ContainsFunc(t.s.Devices, func(d v1alpha1.Device) bool { return d.Touched && d.Level > 0 })
}
