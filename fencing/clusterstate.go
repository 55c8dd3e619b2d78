package fencing

import (
	"cmp"
	"context"
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

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// clusterState has this process's view of the whole cluster, and what it has allowed.
type clusterState struct {
	config     *Config
	nodes      *nodestate.Nodes
	nodeLister corelisters.NodeLister
	configMaps corelisters.ConfigMapLister
	tasks      *tasks

	mu      sync.Mutex
	state   policy.State
	fences  map[string]*v1alpha1.NodeFence // the newest known of each node
	deleted map[string]types.UID           // the last record of each node that is gone
	waiting map[string]waiting             // for the policy
	slots   map[string]bool                // of nodes whose fence may begin, until a record shows the outcome
	checked map[string]error               // by node whose devices were checked: why it cannot be fenced, or nil
	spent   policy.Budget                  // of pods that may be released

	configured atomic.Pointer[map[string]bool] // the nodes that have a configuration; nil while that is not known
}

// waiting is a fence that waits to start.
type waiting struct {
	target policy.Target
	asked  time.Time
}

// patience is how long a waiting fence keeps its place in the queue. It asks again sooner than
// that.
const patience = 30 * time.Second

// factsOf returns the facts of a node, and whether it exists.
func (c *clusterState) factsOf(name string, now time.Time) (policy.NodeFacts, bool) {
	facts, ok := c.nodes.FactsOf(name, now)
	facts.Excluded = facts.Excluded || c.unconfigured(name)
	return facts, ok
}

// unconfigured reports whether OnlyConfigured excludes the node, or may exclude it because the
// configuration is not known yet.
func (c *clusterState) unconfigured(node string) bool {
	if !c.config.OnlyConfigured {
		return false
	}
	configured := c.configured.Load()
	return configured == nil || !(*configured)[node]
}

// pausedMap is the ConfigMap that pauses all fences while it exists.
const pausedMap = "fence-paused"

// paused returns the reason why nothing may be fenced now, or "".
func (c *clusterState) paused() string {
	if c.config.Paused != nil {
		if why := c.config.Paused(); why != "" {
			return why
		}
	}
	m, err := c.configMaps.ConfigMaps(c.config.Namespace).Get(pausedMap)
	if err != nil {
		return ""
	}
	return cmp.Or(m.Data["reason"], "there is a ConfigMap "+pausedMap)
}

// namespace returns the nodes, and the ConfigMaps of the namespace, sorted by name.
func (c *clusterState) namespace() ([]*corev1.Node, []*corev1.ConfigMap) {
	nodes, _ := c.nodeLister.List(labels.Everything()) // a lister of an informer has no errors
	configMaps, _ := c.configMaps.ConfigMaps(c.config.Namespace).List(labels.Everything())
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(configMaps, func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, configMaps
}

// observeRecord stores a record from a watch, a read or a write, and reports whether it is new. The
// answer to a write may arrive after the deletion of the record.
func (c *clusterState) observeRecord(f *v1alpha1.NodeFence) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.fences[f.Node]; known != nil && !newer(f, known) || c.deleted[f.Node] == f.UID && f.UID != "" {
		return false
	}
	c.fences[f.Node] = f
	if fenceState(f) != policy.FenceQueued {
		delete(c.waiting, f.Node)
	}
	if !beginning(f) {
		delete(c.slots, f.Node)
	}
	for node := range c.waiting {
		c.tasks.wake(node)
	}
	return true
}

// forgetRecord removes a deleted record.
func (c *clusterState) forgetRecord(f *v1alpha1.NodeFence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted[f.Node] = f.UID
	if known := c.fences[f.Node]; known != nil && known.UID == f.UID {
		delete(c.fences, f.Node)
		delete(c.waiting, f.Node)
		delete(c.slots, f.Node)
	}
}

// fence returns the newest known record of a node, or nil.
func (c *clusterState) fence(node string) *v1alpha1.NodeFence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fences[node]
}

func newer(f, than *v1alpha1.NodeFence) bool {
	order, err := resourceversion.CompareResourceVersion(f.ResourceVersion, than.ResourceVersion)
	return err != nil || order > 0 || f.UID != than.UID && order >= 0
}

// fenceState returns the state of a fence for the policy. A fence that waits for a human counts as
// given up, because it may wait for days.
func fenceState(f *v1alpha1.NodeFence) policy.Fence {
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

// touched reports whether a command to switch a device off may have been sent in this incident.
func touched(f *v1alpha1.NodeFence) bool {
	return slices.ContainsFunc(f.Status.Devices, func(d v1alpha1.Device) bool { return d.Touched })
}

// past returns what has become of the fence of a record, if that has switched devices.
func past(f *v1alpha1.NodeFence) policy.Past {
	s := &f.Status
	starts := s.Problems.Starts
	if len(starts) == 0 || s.Commission != nil || !touched(f) {
		return policy.Past{}
	}
	p := policy.Past{Began: starts[len(starts)-1].Time}
	leftOff := slices.ContainsFunc(s.Devices, func(d v1alpha1.Device) bool { return d.State == v1alpha1.DeviceLeftOff })
	failed := s.Phase == v1alpha1.PhaseError || s.Phase == v1alpha1.PhaseGivenUp || s.Restarts > 0
	switch {
	case s.Phase == v1alpha1.PhaseFinal, s.Phase == v1alpha1.PhaseRecovering,
		meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReturned):
		p.Outcome = policy.OutcomeReturned
	case failed && s.Released == v1alpha1.ReleasedDone && !leftOff &&
		(s.Abort == v1alpha1.AbortNone || s.Abort == v1alpha1.AbortGaveUp):
		p.Outcome = policy.OutcomeStranded
	}
	return p
}

// needsHuman reports whether a fence that has started to switch devices, or is about to end, waits
// for a human, or for something else that may never come.
func needsHuman(f *v1alpha1.NodeFence) bool {
	s := &f.Status
	if s.Phase.Ended() || !touched(f) && s.Phase != v1alpha1.PhaseRecovering {
		return false
	}
	return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionPaused) ||
		s.Hold != nil && slices.Contains([]string{
			"RestartNeeded", "ConfigurationChanged", "NodeReady", "NoPowerDevice", "OffUnclear", stepFails, agentAlive,
			policy.ReasonNotConfigured, policy.ReasonQuorum,
		}, s.Hold.Reason)
}

// beginning reports whether a fence that was allowed to switch devices may be about to do it. A
// record that shows something else is newer than the permission, so the permitted write fails.
func beginning(f *v1alpha1.NodeFence) bool {
	switch f.Status.Phase {
	case v1alpha1.PhaseIsolating, v1alpha1.PhasePowering, v1alpha1.PhaseCommissioning:
		return fenceState(f) == policy.FenceQueued && f.Status.Hold == nil &&
			!meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionPaused)
	}
	return false
}

// look returns the facts of all nodes. The caller holds mu.
func (c *clusterState) look(now time.Time) policy.View {
	all := policy.View{Now: now, Nodes: c.nodes.Facts(now)}
	there := map[string]bool{}
	for i := range all.Nodes {
		n := &all.Nodes[i]
		there[n.Name] = true
		f := c.fences[n.Name]
		if f != nil {
			n.Fence, n.Past = fenceState(f), past(f)
		}
		n.Excluded = n.Excluded || c.unconfigured(n.Name) && (f == nil || !touched(f)) // a begun fence continues
		if c.slots[n.Name] {
			n.Fence, n.Starting = policy.FenceActive, f == nil || f.Status.Commission == nil
		}
		if problem, checked := c.checked[n.Name]; problem != nil {
			n.FenceReady, n.NotFenceable = policy.False, problem.Error()
		} else if checked {
			n.FenceReady = policy.True
		}
	}
	maps.DeleteFunc(c.checked, func(node string, _ error) bool { return !there[node] })
	for node, f := range c.fences {
		if !there[node] {
			all.Nodes = append(all.Nodes, policy.NodeFacts{Name: node, Gone: true, Fence: fenceState(f)})
		}
		for _, start := range f.Status.Problems.Starts {
			all.Starts = append(all.Starts, policy.Start{Node: node, At: start.Time})
		}
	}
	return all
}

// observe updates the state of the policy. Call it every few seconds.
func (c *clusterState) observe() policy.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.look(time.Now())
	c.state = c.state.Observe(all, c.config.Limits)
	return all
}

// assess returns a decision without side effects. Leadership does not matter, because the caller
// has just had an answer of the API server.
func (c *clusterState) assess(target policy.Target) policy.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	in := c.input(c.look(now), target, policy.Unknown)
	in.Self.LastAPIWrite = now
	return policy.Decide(in)
}

// noteCheck stores the result of a check of a node's devices.
func (c *clusterState) noteCheck(node string, problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[node] = problem
}

// isChecked reports whether the devices of a node were checked.
func (c *clusterState) isChecked(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, checked := c.checked[node]
	return checked
}

// budget returns how many pods may go now, over all fences.
func (c *clusterState) budget(pods int) (granted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent, granted = c.spent.Take(time.Now(), pods, c.config.Limits)
	return granted
}

// storageReachable reports whether this process reaches the storage.
func (c *clusterState) storageReachable(ctx context.Context) policy.Status {
	reachable := c.config.StorageReachable
	switch {
	case reachable == nil:
		return policy.Unknown
	case reachable(ctx):
		return policy.True
	}
	return policy.False
}

// decide returns the decision of the policy. The caller holds mu.
func (c *clusterState) decide(all policy.View, target policy.Target, storage policy.Status) policy.Decision {
	return policy.Decide(c.input(all, target, storage))
}

// input returns the input of the policy. The caller holds mu.
func (c *clusterState) input(all policy.View, target policy.Target, storage policy.Status) policy.Input {
	c.state = c.state.Observe(all, c.config.Limits)
	in := policy.Input{
		View: all, State: c.state, Target: target, Limits: c.config.Limits, Storage: storage,
		Self: policy.Self{Node: c.config.Node, OutsideCluster: c.config.OutsideCluster},
	}
	if c.config.Leadership.Remaining() > 0 { // it was renewed since
		in.Self.LastAPIWrite = all.Now
	}
	in.Paused = c.paused()
	return in
}

// decideContinue decides whether a started fence may switch another device.
func (c *clusterState) decideContinue(target policy.Target, storage policy.Status) policy.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decide(c.look(time.Now()), target, storage)
}

// decideCommission decides whether the devices of a node may be switched for a commission. An
// allowed commission counts as a fence at once.
func (c *clusterState) decideCommission(target policy.Target, storage policy.Status) policy.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.decide(c.look(time.Now()), target, storage)
	delete(c.slots, target.Name)
	if d.Verdict == policy.Allow {
		c.slots[target.Name] = true
	}
	return d
}

// decideStart decides whether a fence may start. An allowed fence that switches devices counts as
// active at once. Nodes that are earlier in the queue and may start go first.
func (c *clusterState) decideStart(target policy.Target, storage policy.Status) policy.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.look(time.Now())
	d := c.decide(all, target, storage)
	if target.Act == policy.Isolate {
		return d
	}
	c.waiting[target.Name] = waiting{target, all.Now}
	delete(c.slots, target.Name) // unless it is allowed again
	if d.Verdict != policy.Allow {
		return d
	}
	var queue []policy.NodeFacts
	for _, n := range all.Nodes {
		if w, ok := c.waiting[n.Name]; ok && all.Now.Sub(w.asked) < patience {
			queue = append(queue, n)
		}
	}
	for _, n := range policy.Order(queue) {
		if n.Name == target.Name {
			break
		}
		if !c.slots[n.Name] && c.decide(all, c.waiting[n.Name].target, storage).Verdict == policy.Allow {
			c.tasks.wake(n.Name)
			return policy.Decision{
				Verdict: policy.Hold, Reason: policy.ReasonQueue, Message: "node " + n.Name + " comes first",
				After: time.Second, Gates: d.Gates,
			}
		}
	}
	c.slots[target.Name] = true
	return d
}

// giveBack ends the permission of a node whose fence did not begin, because the write was refused.
// Other waiting fences then ask first.
func (c *clusterState) giveBack(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slots, node)
	delete(c.waiting, node)
	for other := range c.waiting {
		c.tasks.wake(other)
	}
}

// fenced lists the nodes with a record.
func (c *clusterState) fenced() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.fences))
}

// trigger returns the condition for which a node should be fenced now, or nil.
func (c *clusterState) trigger(node string) *v1alpha1.Trigger {
	now := time.Now()
	facts, ok := c.factsOf(node, now)
	if !ok || !c.candidate(&facts) {
		return nil
	}
	failing := c.nodes.Failing(node, types.UID(facts.UID), now)
	if len(failing) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(failing)), func(a, b api.NodeCondition) int {
		if ready := a.Type == corev1.NodeReady; ready == (b.Type == corev1.NodeReady) {
			return cmp.Compare(a.String(), b.String())
		} else if ready {
			return -1
		}
		return 1
	})
	t := &v1alpha1.Trigger{
		Type: string(first.Type), Status: string(first.Status),
		Since: metav1.NewTime(now.Add(-failing[first]).Round(0).Truncate(time.Second)),
	}
	if first.Type == corev1.NodeReady {
		t.Status = string(cmp.Or(facts.Ready, policy.Unknown))
	}
	return t
}

// candidate reports whether a node fails, and may be fenced by this process.
func (c *clusterState) candidate(n *policy.NodeFacts) bool {
	return fails(n) && n.Name != c.config.Node
}

// fails reports whether a node fails, and may be fenced by some process.
func fails(n *policy.NodeFacts) bool {
	return n.FailingFor > 0 && n.Selected && !n.Excluded && !n.Deleting && !n.AutoscalerTaint && !n.Gone &&
		n.EverReady == policy.True
}

// failing reports whether the condition that started a fence still holds.
func (c *clusterState) failing(n *corev1.Node, f *v1alpha1.NodeFence) bool {
	trigger := c.trigger(n.Name)
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

// leaving reports whether an autoscaler is about to remove the node.
func (c *clusterState) leaving(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(c.config.Nodes.AutoscalerTaints, t.Key)
	})
}

// selected reports whether the node may be fenced by this process or, if it is its own node, by
// another one.
func (c *clusterState) selected(n *corev1.Node) bool {
	facts, ok := c.factsOf(n.Name, time.Now())
	return ok && facts.Selected && !facts.Excluded && !facts.Deleting
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
