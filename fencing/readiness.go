package fencing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// reading is the result of a check for one device.
type reading struct {
	power agent.Power
	err   error // the reason if it could not be read
	// on means that it reads on and the node is Ready; contradicts, that it reads off although the
	// node has renewed its Lease after that.
	on, contradicts bool
}

var (
	errContradicts = errors.New("reads off while the node works: it feeds another machine or reports a wrong state")
	errNeverOn     = errors.New("reads off, and was not seen on while the node worked: it may feed another machine")
)

// flaw returns why a device could not prove that its machine has no power, or nil if it could.
func (r reading) flaw(known bool) error {
	switch {
	case r.err != nil:
		return r.err
	case r.contradicts:
		return errContradicts
	case r.power != agent.PowerOn && !known:
		return errNeverOn
	}
	return nil
}

// readiness reports whether a node could be fenced now.
type readiness struct {
	problem error // the reason why not; nil if it could
	limited error // the reason why some level of devices cannot
}

// readyBy judges the devices of a plan. One level without flaws is enough, because levels replace
// each other. Devices of the isolation step do not.
func readyBy(plan nodeplan.Plan, found map[string]reading, known func(*nodeplan.Device) bool) readiness {
	flaws := func(methods []nodeplan.Method) (all error) {
		for _, m := range methods {
			if m.Device == nil || !m.MustSucceed {
				continue
			}
			if err := found[m.Device.Key].flaw(known(m.Device)); err != nil {
				all = errors.Join(all, fmt.Errorf("device %s: %w", m.Device.Key, err))
			}
		}
		return all
	}
	isolation := flaws(plan.Isolation)
	var power error
	levels, usable := 0, 0
	for _, level := range plan.PowerManagement {
		if len(level.Off()) == 0 {
			continue
		}
		levels++
		err := flaws(level.Off())
		if err == nil {
			usable++
		}
		power = errors.Join(power, err)
	}
	if levels > 0 && usable == 0 {
		return readiness{problem: errors.Join(isolation, power)}
	}
	return readiness{problem: isolation, limited: power}
}

// machine identifies the machine of a Node when its devices were read. If another machine takes a
// Node over, only the UID stays.
type machine struct {
	UID        types.UID `json:"uid"`
	BootID     string    `json:"bootID,omitempty"`
	ProviderID string    `json:"providerID,omitempty"`
	SystemUUID string    `json:"machine,omitempty"`
}

func machineOf(n *corev1.Node) machine {
	return machine{n.UID, n.Status.NodeInfo.BootID, n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID}
}

// seenOn has the devices that were read on while their node worked. If one of them is off before
// any command, that may be believed, whereas another device may feed any machine. It is stored as
// JSON in the annotation [v1alpha1.AnnotationSeenOn] of the Node, because a leader that starts when
// the machine is off cannot find it out.
type seenOn struct {
	machine
	// Devices maps the names of the devices to hashes of how they are reached.
	Devices map[string]string `json:"devices"`
	// At is when the first of them was read on in this boot, By the node of the controller that
	// read it.
	At metav1.Time `json:"at"`
	By string      `json:"by,omitempty"`
}

// seenOf returns what is stored at a Node. It is empty if that is about another machine or an
// earlier boot.
func seenOf(n *corev1.Node) seenOn {
	s := seenOn{}
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationSeenOn]), &s) != nil || s.machine != machineOf(n) {
		return seenOn{machine: machineOf(n)}
	}
	return s
}

// has reports whether a device was seen on, reached as it is now.
func (s seenOn) has(d *nodeplan.Device) bool {
	hash, ok := s.Devices[d.Key]
	return ok && hash == d.Hash()
}

// after updates s by another reading of a plan's devices. A device that reads off while the node
// works is removed. One that cannot be read stays as it is.
func (s seenOn) after(plan nodeplan.Plan, found map[string]reading, by string, now time.Time) seenOn {
	next := seenOn{machine: s.machine, Devices: map[string]string{}, At: s.At, By: s.By}
	for _, d := range plan.Devices() {
		if r := found[d.Key]; r.on || s.has(d) && !r.contradicts {
			next.Devices[d.Key] = d.Hash()
		}
	}
	if next.At.IsZero() {
		next.At, next.By = metav1.NewTime(now.UTC().Truncate(time.Second)), by
	}
	return next
}

// vouched reports whether a controller has recorded that a node had its provider ID before any
// other node. The record is a label that a kubelet may not write, because a Node's claims about
// itself are in doubt.
func vouched(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && n.Labels[v1alpha1.LabelProvider] == providerHash(n)
}

// providerHash returns the provider ID as a label value.
func providerHash(n *corev1.Node) string {
	const digits = 40
	sum := sha256.Sum256([]byte(n.Spec.ProviderID))
	return hex.EncodeToString(sum[:])[:digits]
}
