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

// machine is what a Node was when something was seen of its devices. When another machine takes a
// Node over, the UID stays and the rest does not.
type machine struct {
	UID        types.UID `json:"uid"`
	BootID     string    `json:"bootID,omitempty"`
	ProviderID string    `json:"providerID,omitempty"`
	SystemUUID string    `json:"machine,omitempty"`
}

func machineOf(n *corev1.Node) machine {
	return machine{n.UID, n.Status.NodeInfo.BootID, n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID}
}

// seenOn is which devices were read on while their node worked. One of them that is off before it
// is commanded may be believed; any other may feed anything. It is in the annotation
// [v1alpha1.AnnotationSeenOn] of the Node, in JSON: a leader that comes when the machine is off can
// learn it from nowhere else.
type seenOn struct {
	machine
	// Devices are their names, with a hash each of how they are reached.
	Devices map[string]string `json:"devices"`
	// At and By are when the first of them was seen in this boot, and the node of the controller
	// that has seen it.
	At metav1.Time `json:"at"`
	By string      `json:"by,omitempty"`
}

// seenOf is what a Node says was seen on; nothing, if that was another machine, or this one before
// it was started.
func seenOf(n *corev1.Node) seenOn {
	s := seenOn{}
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationSeenOn]), &s) != nil || s.machine != machineOf(n) {
		return seenOn{machine: machineOf(n)}
	}
	return s
}

// has says whether a device was seen on, reached as it is now.
func (s seenOn) has(d *nodeconfig.Device) bool {
	hash, ok := s.Devices[d.Key]
	return ok && hash == d.Hash()
}

// after is what was seen when the devices of a plan have been read once more. What reads off while
// the node works is not seen on any more; of what cannot be read nothing new is known.
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

// remember writes down at a Node what was seen of its devices, if that is news. A contradiction
// counts in this process from now on, written down or not.
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

// known says of the devices of a node whether they were seen on while the very machine worked that
// an incident is about.
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
