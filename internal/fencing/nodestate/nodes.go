package nodestate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Nodes is the state of all nodes as this process has seen it. It is safe for concurrent use, and
// keeps no references to its arguments. All times are readings of one clock, the caller's, with
// monotonic time.
type Nodes struct {
	config api.NodeSelector

	mu     sync.Mutex
	synced bool
	nodes  map[string]*node
	leases map[string]*lease
}

// New returns Nodes without any state. The error names the invalid fields of the configuration.
func New(config api.NodeSelector) (*Nodes, error) {
	config = config.WithDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Nodes{config: config, nodes: map[string]*node{}, leases: map[string]*lease{}}, nil
}

// Synced reports that all initial Nodes and Leases have been added. A Node that is added later is
// joining until it has been Ready. A Lease that is added later counts as just renewed.
func (n *Nodes) Synced() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced = true
}

// Node adds a version that was received now from an informer or a read.
func (n *Nodes) Node(v *corev1.Node, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[v.Name]
	if known != nil && known.uid != v.UID {
		if older(v.ResourceVersion, known.version) {
			return // a late event of an earlier Node
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

// NodeGone removes a Node. It has no effect on a new Node of the same name.
func (n *Nodes) NodeGone(name string, uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.nodes[name]; known != nil && known.uid == uid {
		n.forget(name)
	}
}

// forget removes a Node. The renewals of its Lease do not prove that the next Node of its name is
// alive.
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

// Lease adds a version that was received now. Leases outside of kube-node-lease are ignored.
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
		known = &lease{uid: v.UID} // it was not there before, so it counts as renewed
	default:
		known = &lease{uid: v.UID, stamp: stampOf(v)} // since when is unknown
	}
	n.leases[v.Name] = known
	known.see(v, now)
}

// LeaseGone removes a Lease. It has no effect on a new Lease of the same name.
func (n *Nodes) LeaseGone(name string, uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.leases[name]
	switch {
	case known == nil || known.uid != uid:
	case n.nodes[name] == nil:
		delete(n.leases, name)
	default:
		// A watch that is reset may bring it again, which is not new.
		known.gone, known.renewed = true, time.Time{}
	}
}

// Facts returns the facts of all Nodes, sorted by name. The caller adds what does not concern Nodes
// and Leases: the states of fences.
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

// FactsOf returns the facts of one Node, and whether it exists.
func (n *Nodes) FactsOf(name string, now time.Time) (policy.NodeFacts, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[name]
	if known == nil {
		return policy.NodeFacts{}, false
	}
	return known.at(now, n.leases[name]), true
}

// Failing returns the conditions of a Node that start a fence, and how long each has lasted. Ready
// with an empty status means that Ready is not True.
func (n *Nodes) Failing(name string, uid types.UID, now time.Time) map[api.NodeCondition]time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.nodes[name]
	if known == nil || known.uid != uid {
		return nil
	}
	failing := map[api.NodeCondition]time.Duration{}
	for trigger, s := range known.failing {
		failing[trigger] = max(now.Sub(s.since), 1)
	}
	return failing
}
