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

// Commissioned is what commissions have proved of a node, and not what a reading tells: that its machine lost its power by these devices. It is in the
// annotation [v1alpha1.AnnotationCommissioned] of the Node, in JSON.
type Commissioned struct {
	// UID and Machine are the Node's UID, and the system UUID of its machine. With others nothing is proved.
	UID     types.UID `json:"uid"`
	Machine string    `json:"machine,omitempty"`
	// Levels are those of power_management, in no order. The devices of a level are proved together: that none of them is enough is not known.
	Levels []ProvedLevel `json:"levels"`
}

// ProvedLevel is a level of devices by which the machine of a node has lost its power.
type ProvedLevel struct {
	// Devices are their names, agent/address/plug, with a hash each of how they are reached.
	Devices map[string]string `json:"devices"`
	// Before and After are the node's boot IDs.
	Before string `json:"before"`
	After  string `json:"after"`
	// At is when the node was back.
	At metav1.Time `json:"at"`
}

// proofOf is what is proved of a node; nothing if that was about another machine.
func proofOf(n *corev1.Node) Commissioned {
	p, none := Commissioned{}, Commissioned{UID: n.UID, Machine: n.Status.NodeInfo.SystemUUID}
	if json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationCommissioned]), &p) != nil || p.UID != none.UID || p.Machine != none.Machine {
		return none
	}
	return p
}

// devices are those of a level that are switched off, as proofs have them.
func devices(level nodeconfig.Level) map[string]string {
	all := map[string]string{}
	for _, m := range level.Off() {
		all[m.Device.Key] = m.Device.Hash()
	}
	return all
}

// proves says whether exactly these devices are proved together: one that is missing may have been the one that mattered, and one more may be another
// machine's.
func (p Commissioned) proves(devices map[string]string) bool {
	return slices.ContainsFunc(p.Levels, func(l ProvedLevel) bool { return maps.Equal(l.Devices, devices) })
}

// with is the proof with one more level. Of the others those stay that the plan still has.
func (p Commissioned) with(proved ProvedLevel, plan nodeconfig.Plan) Commissioned {
	var kept []ProvedLevel
	for _, l := range p.Levels {
		same := func(level nodeconfig.Level) bool { return maps.Equal(devices(level), l.Devices) }
		if !maps.Equal(l.Devices, proved.Devices) && slices.ContainsFunc(plan.PowerManagement, same) {
			kept = append(kept, l)
		}
	}
	p.Levels = append(kept, proved)
	return p
}

// unproved names the power devices of a node's configuration that are not proved to be its own.
func (r *run) unproved(node string, plan nodeconfig.Plan) (names []string) {
	var p Commissioned
	if n, err := r.state.nodeLister.Get(node); err == nil {
		p = proofOf(n)
	}
	for _, level := range plan.PowerManagement {
		if of := devices(level); len(of) > 0 && !p.proves(of) {
			names = append(names, slices.Sorted(maps.Keys(of))...)
		}
	}
	return names
}

// errNotBack says that the node has not started anew, which the state machine has seen a moment ago.
var errNotBack = errors.New("fencing: the node is not back yet")

// writeProof notes at the node that the level of devices that was tried is its own.
func (f *fence) writeProof(ctx context.Context, node *cluster.Node) error {
	n, err := f.liveNode(ctx, f.node)
	if err != nil {
		return err
	}
	s := &f.record.Status
	after := n.Status.NodeInfo.BootID
	if n.UID != s.NodeUID || after == "" || after == s.BootID || f.plan.Hash != s.ConfigHash {
		return errNotBack
	}
	proved := ProvedLevel{Devices: map[string]string{}, Before: s.BootID, After: after, At: metav1.NewTime(time.Now().Truncate(time.Second))}
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
	return node.Annotate(ctx, f.requireLeader, v1alpha1.AnnotationCommissioned, string(text))
}
