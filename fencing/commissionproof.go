package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Commissioned has what commissions have proved about a node, namely that these devices switch its
// machine off. It is stored as JSON in the annotation [v1alpha1.AnnotationCommissioned] of the
// Node.
type Commissioned struct {
	// UID of the Node, and system UUID of its machine. The proof is void for any other.
	UID     types.UID `json:"uid"`
	Machine string    `json:"machine,omitempty"`
	// Levels are the proved levels of power_management, in no order. The devices of a level are
	// proved together; a part of them is not proved.
	Levels []ProvedLevel `json:"levels"`
}

// ProvedLevel is a level of devices that has switched off the machine of a node.
type ProvedLevel struct {
	// Devices maps the names of the devices, agent/address/plug, to a hash of their configuration.
	Devices map[string]string `json:"devices"`
	// Before and After are the node's boot IDs.
	Before string `json:"before"`
	After  string `json:"after"`
	// At is when the node was back.
	At metav1.Time `json:"at"`
}

// proofOf returns what is proved about a node. It is empty if the stored proof is about another
// machine.
func proofOf(n *corev1.Node) Commissioned {
	p, none := Commissioned{}, Commissioned{UID: n.UID, Machine: n.Status.NodeInfo.SystemUUID}
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationCommissioned]), &p) != nil || p.UID != none.UID ||
		p.Machine != none.Machine {
		return none
	}
	return p
}

// switched returns the devices that a level switches off, in the form of ProvedLevel.Devices.
func switched(level nodeconfig.Level) map[string]string {
	all := map[string]string{}
	for _, m := range level.Off() {
		all[m.Device.Key] = m.Device.Hash()
	}
	return all
}

// proves reports whether exactly these devices are proved together. A missing device may have been
// the one that mattered, and an additional one may belong to another machine.
func (p Commissioned) proves(devices map[string]string) bool {
	return slices.ContainsFunc(p.Levels, func(l ProvedLevel) bool { return maps.Equal(l.Devices, devices) })
}

// with returns the proof with one more level. It drops levels that the plan no longer has.
func (p Commissioned) with(proved ProvedLevel, plan nodeconfig.Plan) Commissioned {
	var kept []ProvedLevel
	for _, l := range p.Levels {
		same := func(level nodeconfig.Level) bool { return maps.Equal(switched(level), l.Devices) }
		if !maps.Equal(l.Devices, proved.Devices) && slices.ContainsFunc(plan.PowerManagement, same) {
			kept = append(kept, l)
		}
	}
	p.Levels = append(kept, proved)
	return p
}

// unproved lists the power devices in a node's configuration that are not proved.
func (c *clusterState) unproved(node string, plan nodeconfig.Plan) (names []string) {
	var p Commissioned
	if n, err := c.nodeLister.Get(node); err == nil {
		p = proofOf(n)
	}
	for _, level := range plan.PowerManagement {
		if of := switched(level); len(of) > 0 && !p.proves(of) {
			names = append(names, slices.Sorted(maps.Keys(of))...)
		}
	}
	return names
}

// errNotBack means that the node has not rebooted, contrary to the state machine's last look at it.
var errNotBack = errors.New("fencing: the node is not back yet")

// writeProof stores the proof for the commissioned level at the Node.
func (f *fence) writeProof(ctx context.Context, node *cluster.Node) error {
	n, err := f.client.node(ctx, f.node)
	if err != nil {
		return err
	}
	s := &f.record.Status
	after := n.Status.NodeInfo.BootID
	if n.UID != s.NodeUID || after == "" || after == s.BootID || f.plan.Hash != s.ConfigHash {
		return errNotBack
	}
	proved := ProvedLevel{
		Devices: map[string]string{}, Before: s.BootID, After: after,
		At: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	for _, d := range s.Devices {
		if d.Level != s.Level {
			continue
		}
		of, ok := device(f.plan, d.Device)
		if !ok {
			return errNotBack
		}
		proved.Devices[d.Device] = of.Hash()
	}
	text, err := json.Marshal(proofOf(n).with(proved, f.plan))
	if err != nil {
		return err
	}
	return node.Annotate(ctx, f.config.requireLeader, v1alpha1.AnnotationCommissioned, string(text))
}
