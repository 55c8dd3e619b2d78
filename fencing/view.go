package fencing

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// view is what this process knows of the whole cluster, and what it has allowed.
type view struct {
	config     Config
	nodes      *nodestate.Nodes
	nodeLister corelisters.NodeLister
	configMaps corelisters.ConfigMapLister

	mu      sync.Mutex
	state   policy.State
	fences  map[string]*v1alpha1.NodeFence // the newest known of each node
	deleted map[string]types.UID           // the last record of each node that is gone
	waiting map[string]waiting             // for the policy
	slots   map[string]bool                // of nodes that may begin, and whose record does not say so yet
	wake    func(node string)
	checked func(node string) (policy.Status, error)

	configured atomic.Pointer[map[string]bool] // the nodes that have a configuration; nil: it is not known yet
}

// waiting is a fence that has asked to begin.
type waiting struct {
	target policy.Target
	asked  time.Time
}

// patience is for how long a fence that was told to wait has a place in the queue: it asks again sooner than that.
const patience = 30 * time.Second

func newView(c Config, nodes *nodestate.Nodes, nodeLister corelisters.NodeLister, configMaps corelisters.ConfigMapLister, wake func(string)) *view {
	return &view{
		config: c, nodes: nodes, nodeLister: nodeLister, configMaps: configMaps, wake: wake,
		fences: map[string]*v1alpha1.NodeFence{}, deleted: map[string]types.UID{}, waiting: map[string]waiting{}, slots: map[string]bool{},
	}
}

// factsOf returns what is known of a node, and whether there is one.
func (v *view) factsOf(name string, now time.Time) (policy.NodeFacts, bool) {
	facts, ok := v.nodes.FactsOf(name, now)
	facts.Excluded = facts.Excluded || v.unconfigured(name)
	return facts, ok
}

// unconfigured says that a node is left alone because nothing says how it is to be fenced, or that it is
// not known yet.
func (v *view) unconfigured(node string) bool {
	if !v.config.OnlyConfigured {
		return false
	}
	configured := v.configured.Load()
	return configured == nil || !(*configured)[node]
}

// pausedMap is the ConfigMap that has nothing fenced as long as it is there.
const pausedMap = "fence-paused"

// paused says why nothing may be fenced now; empty: it may.
func (v *view) paused() string {
	if v.config.Paused != nil {
		if why := v.config.Paused(); why != "" {
			return why
		}
	}
	m, err := v.configMaps.ConfigMaps(v.config.Namespace).Get(pausedMap)
	if err != nil {
		return ""
	}
	return cmp.Or(m.Data["reason"], "there is a ConfigMap "+pausedMap)
}

// namespace returns the nodes, and the ConfigMaps of the namespace, by name.
func (v *view) namespace(namespace string) ([]*corev1.Node, []*corev1.ConfigMap) {
	nodes, _ := v.nodeLister.List(labels.Everything()) // a lister of an informer has no errors
	configMaps, _ := v.configMaps.ConfigMaps(namespace).List(labels.Everything())
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(configMaps, func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, configMaps
}

// knows takes in a record, from a watch, a read or a write, and reports whether it is news. The answer to a write may come after the news that the
// record is gone.
func (v *view) knows(f *v1alpha1.NodeFence) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.fences[f.Node]; known != nil && !newer(f, known) || v.deleted[f.Node] == f.UID && f.UID != "" {
		return false
	}
	v.fences[f.Node] = f
	if standing(f) != policy.FenceQueued {
		delete(v.waiting, f.Node)
		delete(v.slots, f.Node)
	}
	for node := range v.waiting {
		v.wake(node)
	}
	return true
}

// forgets takes in that a record was deleted.
func (v *view) forgets(f *v1alpha1.NodeFence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[f.Node] = f.UID
	if known := v.fences[f.Node]; known != nil && known.UID == f.UID {
		delete(v.fences, f.Node)
		delete(v.waiting, f.Node)
		delete(v.slots, f.Node)
	}
}

// fence returns the newest record that is known of a node; nil: none.
func (v *view) fence(node string) *v1alpha1.NodeFence {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.fences[node]
}

func newer(f, than *v1alpha1.NodeFence) bool {
	order, err := resourceversion.CompareResourceVersion(f.ResourceVersion, than.ResourceVersion)
	return err != nil || order > 0 || f.UID != than.UID && order >= 0
}

// standing is how far a fence is, as far as others have to know. One that waits for a human is to them as one that was given up: it may wait for days.
func standing(f *v1alpha1.NodeFence) policy.Fence {
	if needsHuman(f) {
		return policy.FenceGivenUp
	}
	switch f.Status.Phase {
	case v1alpha1.PhaseFinal:
		return policy.FenceNone
	case v1alpha1.PhaseGivenUp:
		return policy.FenceGivenUp
	case v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering:
		return policy.FenceBooting
	}
	if touched(f) {
		return policy.FenceActive
	}
	return policy.FenceQueued
}

// touched says that a command to switch something off may have been sent in this incident.
func touched(f *v1alpha1.NodeFence) bool {
	return slices.ContainsFunc(f.Status.Devices, func(d v1alpha1.Device) bool { return d.Touched })
}

// needsHuman says that a fence that has begun to switch devices, or is about to end, does not go on until a human has done something.
func needsHuman(f *v1alpha1.NodeFence) bool {
	s := &f.Status
	if s.Phase.Ended() || !touched(f) && s.Phase != v1alpha1.PhaseRecovering {
		return false
	}
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionPaused) ||
		s.Hold != nil && slices.Contains([]string{"RestartNeeded", "ConfigurationChanged", string(policy.ReasonNotConfigured)}, s.Hold.Reason)
}

// look returns what is known of all nodes. The caller holds mu.
func (v *view) look(now time.Time) policy.View {
	all := policy.View{Now: now, Nodes: v.nodes.Facts(now)}
	there := map[string]bool{}
	for i := range all.Nodes {
		n := &all.Nodes[i]
		there[n.Name] = true
		f := v.fences[n.Name]
		if f != nil {
			n.Fence = standing(f)
		}
		n.Excluded = n.Excluded || v.unconfigured(n.Name) && (f == nil || !touched(f)) // what has begun goes on
		if v.slots[n.Name] {
			n.Fence, n.Starting = policy.FenceActive, f == nil || f.Status.Commission == nil
		}
		if checked, problem := v.checked(n.Name); checked != policy.Missing {
			n.FenceReady = checked
			if problem != nil {
				n.NotFenceable = problem.Error()
			}
		}
	}
	for node, f := range v.fences {
		if !there[node] {
			all.Nodes = append(all.Nodes, policy.NodeFacts{Name: node, Gone: true, Fence: standing(f)})
		}
		for _, start := range f.Status.Problems.Starts {
			all.Starts = append(all.Starts, policy.Start{Node: node, At: start.Time})
		}
	}
	return all
}

// observe keeps what decisions have to know of the past. It has to be called every few seconds.
func (v *view) observe() policy.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.look(time.Now())
	v.state = v.state.Observe(all, policy.Limits(v.config.Limits))
	return all
}

// assess asks the policy without any consequence. This process has just been answered by the API server, whoever leads.
func (v *view) assess(target policy.Target) policy.Decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	in := v.input(v.look(now), target, policy.Unknown)
	in.Self.LastAPIWrite = now
	return policy.Decide(in)
}

// decide asks the policy. The caller holds mu.
func (v *view) decide(all policy.View, target policy.Target, storage policy.Status) policy.Decision {
	return policy.Decide(v.input(all, target, storage))
}

// input is what the policy decides on. The caller holds mu.
func (v *view) input(all policy.View, target policy.Target, storage policy.Status) policy.Input {
	v.state = v.state.Observe(all, policy.Limits(v.config.Limits))
	in := policy.Input{
		View: all, State: v.state, Target: target, Limits: policy.Limits(v.config.Limits), Storage: storage,
		Self: policy.Self{Node: v.config.Node, OutsideCluster: v.config.OutsideCluster},
	}
	if v.config.Leadership.Remaining() > 0 { // it was renewed since
		in.Self.LastAPIWrite = all.Now
	}
	in.Paused = v.paused()
	return in
}

// goesOn asks whether a fence that has begun may switch another device.
func (v *view) goesOn(target policy.Target, storage policy.Status) policy.Decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.decide(v.look(time.Now()), target, storage)
}

// tries asks whether the devices of a node may be tried, and has others count it as a fence if they may.
func (v *view) tries(target policy.Target, storage policy.Status) policy.Decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.decide(v.look(time.Now()), target, storage)
	if d.Verdict == policy.Allow {
		v.slots[target.Name] = true
	}
	return d
}

// begins asks whether a fence may begin, and if it may switch devices, has others count it as one that does. Those that come before it in the
// queue, and may begin as well, come first.
func (v *view) begins(target policy.Target, storage policy.Status) policy.Decision {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.look(time.Now())
	d := v.decide(all, target, storage)
	if target.Act == policy.Isolate {
		return d
	}
	v.waiting[target.Name] = waiting{target, all.Now}
	if d.Verdict != policy.Allow {
		return d
	}
	var queue []policy.NodeFacts
	for _, n := range all.Nodes {
		if w, ok := v.waiting[n.Name]; ok && all.Now.Sub(w.asked) < patience {
			queue = append(queue, n)
		}
	}
	for _, n := range policy.Order(queue) {
		if n.Name == target.Name {
			break
		}
		if !v.slots[n.Name] && v.decide(all, v.waiting[n.Name].target, storage).Verdict == policy.Allow {
			v.wake(n.Name)
			return policy.Decision{
				Verdict: policy.Hold, Reason: policy.ReasonQueue, Message: "node " + n.Name + " comes first", After: time.Second, All: d.All,
			}
		}
	}
	v.slots[target.Name] = true
	return d
}

// fenced names the nodes that have a record.
func (v *view) fenced() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.fences))
}

// trigger is the condition for which a node should be fenced now; nil: none.
func (v *view) trigger(node string) *v1alpha1.Trigger {
	now := time.Now()
	facts, ok := v.factsOf(node, now)
	if !ok || !v.candidate(&facts) {
		return nil
	}
	failing := v.nodes.Failing(node, types.UID(facts.UID), now)
	conditions := slices.SortedFunc(maps.Keys(failing), func(a, b nodestate.Condition) int {
		if ready := (a.Type == corev1.NodeReady); ready != (b.Type == corev1.NodeReady) {
			if ready {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.String(), b.String())
	})
	if len(conditions) == 0 {
		return nil
	}
	first := conditions[0]
	t := &v1alpha1.Trigger{Type: string(first.Type), Status: string(first.Status), Since: metav1.NewTime(now.Add(-failing[first]).Round(0).Truncate(time.Second))}
	if first.Type == corev1.NodeReady {
		t.Status = string(cmp.Or(facts.Ready, policy.Unknown))
	}
	return t
}

// candidate says that a node may be fenced, and fails.
func (v *view) candidate(n *policy.NodeFacts) bool {
	return n.FailingFor > 0 && n.Selected && !n.Excluded && !n.Deleting && !n.AutoscalerTaint && !n.Gone && n.EverReady == policy.True && n.Name != v.config.Node
}

// failing says whether the condition that started a fence still holds.
func (v *view) failing(n *corev1.Node, f *v1alpha1.NodeFence) bool {
	trigger := v.trigger(n.Name)
	if len(f.Status.Triggers) > 0 {
		trigger = &f.Status.Triggers[0]
	}
	if trigger == nil || trigger.Type == string(corev1.NodeReady) {
		return !ready(n)
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return string(c.Type) == trigger.Type && string(c.Status) == trigger.Status
	})
}

// leaving says that an autoscaler is about to remove the node.
func (v *view) leaving(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(v.config.Nodes.withDefaults().AutoscalerTaints, t.Key)
	})
}
