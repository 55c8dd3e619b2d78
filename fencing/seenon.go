package fencing

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

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
func (s seenOn) has(d *nodeconfig.Device) bool {
	hash, ok := s.Devices[d.Key]
	return ok && hash == d.Hash()
}

// after updates s by another reading of a plan's devices. A device that reads off while the node
// works is removed. One that cannot be read stays as it is.
func (s seenOn) after(plan nodeconfig.Plan, found map[string]reading, by string, now time.Time) seenOn {
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

func unknown(*nodeconfig.Device) bool { return false }
