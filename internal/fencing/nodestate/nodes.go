package nodestate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Nodes is what this process has seen of all nodes. It is safe for concurrent use, and keeps none
// of the objects that it is given. All times are of one clock, the caller's, with monotonic
// readings.
type Nodes struct {
	config Config

	mu     sync.Mutex
	synced bool
	nodes  map[string]*node
	leases map[string]*lease
}

// New returns one that has seen nothing. An error says which fields of the configuration break
// which rules.
func New(config Config) (*Nodes, error) {
	config = config.WithDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Nodes{config: config, nodes: map[string]*node{}, leases: map[string]*lease{}}, nil
}

// Synced says that all Nodes and Leases that there were at the beginning have been given. Those
// that come for the first time after it are new: such a Node is joining until it has been Ready,
// such a Lease has been renewed just now.
func (n *Nodes) Synced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced = true
}

// Node takes in a version that was received now, from an informer or a read.
func (n *Nodes) Node(v *corev1.Node, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[v.Name]
	if known != nil && known.uid != v.UID {
		if older(v.ResourceVersion, known.version) {
			return // the end of an earlier one, seen late
		}
		n.forget(v.Name)
		known = nil
	}
	joining := known == nil && n.synced
	if known == nil {
		known = &node{uid: v.UID}
		n.nodes[v.Name] = known
	}
	known.see(v, &n.config, joining, now)
}

// NodeGone says that a Node is gone. If another one has its name by now, that stays.
func (n *Nodes) NodeGone(name string, uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.nodes[name]; known != nil && known.uid == uid {
		n.forget(name)
	}
}

// forget is about a Node that is gone. That it has renewed its Lease does not prove that the next
// one of its name lives.
func (n *Nodes) forget(name string) {
	gone := n.nodes[name]
	delete(n.nodes, name)
	switch l := n.leases[name]; {
	case l == nil:
	case l.gone:
		delete(n.leases, name)
	case l.owner == "" || l.owner == gone.uid:
		l.renewed = time.Time{}
	}
}

// Lease takes in a version that was received now. Leases in other namespaces than that of nodes are
// ignored.
func (n *Nodes) Lease(v *coordinationv1.Lease, now time.Time) {
	if v.Namespace != corev1.NamespaceNodeLease {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.leases[v.Name]
	switch {
	case known != nil && (older(v.ResourceVersion, known.version) || known.gone && known.uid == v.UID):
		return
	case known != nil && known.uid == v.UID:
	case known != nil || n.synced:
		known = &lease{uid: v.UID} // whatever its stamp is, it was not there before
	default:
		known = &lease{uid: v.UID, stamp: stampOf(v)} // for how long it has been so is not known
	}
	n.leases[v.Name] = known
	known.see(v, now)
}

// LeaseGone says that a Lease is gone. If another one has its name by now, that stays.
func (n *Nodes) LeaseGone(name string, uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.leases[name]
	switch {
	case known == nil || known.uid != uid:
	case n.nodes[name] == nil:
		delete(n.leases, name)
	default:
		// If a watch that is set back brings it again, it is to be known that this is nothing new.
		known.gone, known.renewed = true, time.Time{}
	}
}

// Facts returns those of all Nodes, by name. What is not about Nodes and Leases is for the caller
// to fill in: the states of fences.
func (n *Nodes) Facts(now time.Time) []policy.NodeFacts {
	n.mu.Lock()
	defer n.mu.Unlock()
	facts := make([]policy.NodeFacts, 0, len(n.nodes))
	for name, known := range n.nodes {
		facts = append(facts, known.at(now, n.leases[name]))
	}
	slices.SortFunc(facts, func(a, b policy.NodeFacts) int { return cmp.Compare(a.Name, b.Name) })
	return facts
}

// FactsOf returns those of one Node, and whether there is one.
func (n *Nodes) FactsOf(name string, now time.Time) (policy.NodeFacts, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[name]
	if known == nil {
		return policy.NodeFacts{}, false
	}
	return known.at(now, n.leases[name]), true
}

// Failing returns the conditions of a Node that a fence is started for, and for how long each has
// been there. Ready is one with an empty status: it is not True.
func (n *Nodes) Failing(name string, uid types.UID, now time.Time) map[Condition]time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[name]
	if known == nil || known.uid != uid {
		return nil
	}
	failing := map[Condition]time.Duration{}
	for trigger, s := range known.failing {
		failing[trigger] = max(now.Sub(s.since), 1)
	}
	return failing
}
