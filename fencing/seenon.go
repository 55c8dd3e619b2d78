package fencing

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
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

// remember stores new knowledge about a node's devices at the Node. A contradiction counts in this
// process at once, even if it cannot be stored.
func (c *checks) remember(ctx context.Context, n *corev1.Node, plan nodeconfig.Plan, found map[string]reading) error {
	c.mu.Lock()
	for device, r := range found {
		switch {
		case r.contradicts:
			if c.withdrawn[n.Name] == nil {
				c.withdrawn[n.Name] = map[string]bool{}
			}
			c.withdrawn[n.Name][device] = true
		case r.on:
			delete(c.withdrawn[n.Name], device)
		}
	}
	c.mu.Unlock()
	before := seenOf(n)
	after := before.after(plan, found, c.config.Node, time.Now())
	if maps.Equal(before.Devices, after.Devices) {
		return nil
	}
	text, err := json.Marshal(after)
	if err != nil {
		return err
	}
	node, err := cluster.New(c.kube, cluster.Config{Name: n.Name, UID: n.UID, Incident: 1})
	if err != nil {
		return err
	}
	return node.Annotate(ctx, c.requireLeader, v1alpha1.AnnotationSeenOn, string(text))
}

// known returns a function that reports whether a device of a node was read on while the very
// machine of the incident worked.
func (c *checks) known(node string, s *v1alpha1.Status) func(*nodeconfig.Device) bool {
	n, err := c.state.nodeLister.Get(node)
	if err != nil || n.UID != s.NodeUID || n.Status.NodeInfo.BootID != s.BootID || n.Spec.ProviderID != s.ProviderID {
		return unknown
	}
	seen := seenOf(n)
	return func(d *nodeconfig.Device) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return seen.has(d) && !c.withdrawn[node][d.Key]
	}
}

func unknown(*nodeconfig.Device) bool { return false }
