package fencing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// checks reads the devices of healthy nodes, to find out whether each node could be fenced.
type checks struct {
	config  *Config
	client  client
	state   *clusterState
	plans   *planCache
	devices *devices
	dumps   *dumps
	tasks   *tasks
	began   time.Time // the term

	survey survey // of watch

	mu    sync.Mutex
	nodes map[string]*checked
}

// checked has what checks remembers about a node.
type checked struct {
	busy      bool      // it is being checked
	begun     time.Time // the last check
	ended     bool      // one has
	last      check
	told      time.Time       // when the result was last reported
	withdrawn map[string]bool // devices that have contradicted the node, and have not read on since
}

// check is the result of the last reading of a node's devices.
type check struct {
	readiness
	machine machine
	flawed  bool // the problem is the configuration
}

// of returns what is remembered about a node. The caller holds mu.
func (c *checks) of(node string) *checked {
	if c.nodes[node] == nil {
		c.nodes[node] = &checked{withdrawn: map[string]bool{}}
	}
	return c.nodes[node]
}

// watch checks nodes when they are due, until ctx ends.
func (c *checks) watch(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer c.survey.leave()
	for {
		nodes, _ := c.state.namespace()
		c.forget(nodes)
		flaws := c.survey.take(ctx, nodes)
		for _, n := range nodes {
			if c.due(n, flaws[n.Name] != nil) {
				all.Go(func() { c.check(ctx, n) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// forget removes what is remembered about nodes that are gone.
func (c *checks) forget(nodes []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.nodes, func(node string, known *checked) bool {
		_, there := slices.BinarySearchFunc(nodes, node, func(n *corev1.Node, name string) int {
			return cmp.Compare(n.Name, name)
		})
		return !there && !known.busy
	})
}

// due reports whether the node must be checked now, and reserves the check. It leaves devices of a
// fence alone. A new or mended flaw in the configuration makes a node due at once.
func (c *checks) due(n *corev1.Node, flawed bool) bool {
	if f := c.state.fence(n.Name); f != nil && fenceState(f) != policy.FenceNone &&
		fenceState(f) != policy.FenceQueued {
		return false
	}
	if !c.state.selected(n) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of(n.Name)
	if known.busy {
		return false
	}
	interval := c.config.CheckInterval
	if known.last.problem != nil || known.last.limited != nil {
		interval = min(interval, time.Minute)
	}
	// Another machine, or one that was restarted: earlier results are void.
	another := ready(n) && known.last.machine != machineOf(n) ||
		known.last.flawed != flawed
	now := time.Now()
	if !known.begun.IsZero() && round(n.Name, now, interval) == round(n.Name, known.begun, interval) &&
		(!another || now.Sub(known.begun) < tick) {
		return false
	}
	known.begun, known.busy = now, true
	return true
}

// round numbers the intervals of a node's checks. Those of different nodes begin at different
// times, so that checks are spread after the first one.
func round(node string, at time.Time, interval time.Duration) int64 {
	begins := int64(xxhash.Sum64String(node) % uint64(interval))
	return (at.UnixNano() - begins) / int64(interval)
}

// check reads all devices of a node and publishes the result.
func (c *checks) check(ctx context.Context, n *corev1.Node) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of(n.Name).busy = false
	}()
	plan, err := c.plans.plan(ctx, n.Name, "")
	result, found := c.inspect(ctx, n, plan, err)
	if ctx.Err() != nil {
		return
	}
	failed := func(err error, message string) bool {
		if err == nil || ctx.Err() != nil {
			return false
		}
		kube.RoleOf(ctx).Refused(err)
		c.config.Logger.Debug(message, zap.String("node", n.Name), zap.Error(err))
		return true
	}
	if err := c.remember(ctx, n, plan, found); failed(err, "devices seen on not recorded, retrying") {
		result.limited = errors.Join(result.limited, err) // soon
	}
	failed(c.vouch(ctx, n, plan, found), "provider ID not recorded, retrying")
	c.mu.Lock()
	known := c.of(n.Name)
	news := !known.ended || (known.last.problem == nil) != (result.problem == nil)
	known.last, known.ended = result, true
	c.mu.Unlock()
	c.state.noteCheck(n.Name, result.problem)
	if hook := c.config.Hooks.OnCheck; hook != nil {
		hook(n.Name, result.problem)
	}
	if news {
		if result.problem != nil {
			c.config.Logger.Warn("node cannot be fenced", zap.String("node", n.Name), zap.Error(result.problem))
		}
		c.tasks.wake(n.Name)
	}
	failed(c.publish(ctx, n, result.readiness), "condition FenceReady not written, retrying")
}

// inspect reads all devices of a node without any change. The error is about its configuration.
func (c *checks) inspect(
	ctx context.Context, n *corev1.Node, plan nodeplan.Plan, err error,
) (check, map[string]reading) {
	result := check{machine: machineOf(n)}
	if err == nil {
		err = c.config.usable(plan)
	}
	if err != nil {
		result.problem, result.flawed = err, true
		return result, nil
	}
	found := map[string]reading{}
	for _, d := range plan.Devices() {
		power, err := c.read(ctx, n.Name, d)
		found[d.Key] = reading{power: power, err: err, on: err == nil && power == agent.PowerOn && ready(n)}
	}
	c.contradict(ctx, n, plan, found)
	seen := seenOf(n).after(plan, found, "", time.Time{})
	result.readiness = readyBy(plan, found, seen.has)
	if plan.Kdump {
		result.problem = errors.Join(result.problem, c.dumps.want(ctx))
	}
	return result, found
}

// read reads a device when it is its turn.
func (c *checks) read(ctx context.Context, node string, d *nodeplan.Device) (agent.Power, error) {
	end, err := c.devices.turns.take(ctx, d.Queue, false)
	if err != nil {
		return agent.PowerUnknown, err
	}
	defer end()
	return c.devices.power(ctx, node, d)
}

// contradict compares the readings with whether the node works. A node that has just died is still
// shown Ready. Only a renewal of its Lease between two readings without power proves a
// contradiction.
func (c *checks) contradict(ctx context.Context, n *corev1.Node, plan nodeplan.Plan, found map[string]reading) {
	off := slices.DeleteFunc(plan.Devices(), func(d *nodeplan.Device) bool {
		return found[d.Key].err != nil || found[d.Key].power != agent.PowerOff
	})
	if len(off) == 0 || !ready(n) || !c.outlives(ctx, n.Name) {
		return
	}
	for _, d := range off {
		power, err := c.read(ctx, n.Name, d)
		found[d.Key] = reading{power: power, err: err, contradicts: err == nil && power == agent.PowerOff}
	}
}

// outlives reports whether the node renews its Lease within its renewal interval from now.
func (c *checks) outlives(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.LeaseSilence)
	defer cancel()
	for first := ""; ; {
		renewal, err := c.client.renewal(ctx, node)
		switch {
		case err != nil:
		case first == "":
			first = renewal
		case renewal != "" && renewal != first:
			return true
		}
		if !clock.Sleep(ctx, tick) {
			return false
		}
	}
}

// remember stores new knowledge about a node's devices at the Node. A contradiction counts in this
// process at once, even if it cannot be stored.
func (c *checks) remember(ctx context.Context, n *corev1.Node, plan nodeplan.Plan, found map[string]reading) error {
	c.mu.Lock()
	withdrawn := c.of(n.Name).withdrawn
	for device, r := range found {
		switch {
		case r.contradicts:
			withdrawn[device] = true
		case r.on:
			delete(withdrawn, device)
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
	node, err := c.client.outside(n)
	if err != nil {
		return err
	}
	return node.Annotate(ctx, c.config.requireLeader, v1alpha1.AnnotationSeenOn, string(text))
}

// known returns the keys of the devices of a node that were read on while the very machine of the
// incident worked.
func (c *checks) known(node string, s *v1alpha1.Status, plan nodeplan.Plan) map[string]bool {
	n, err := c.state.nodeLister.Get(node)
	if err != nil || n.UID != s.NodeUID || n.Status.NodeInfo.BootID != s.BootID || n.Spec.ProviderID != s.ProviderID {
		return nil
	}
	seen, known := seenOf(n), map[string]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range plan.Devices() {
		known[d.Key] = seen.has(d) && !c.of(node).withdrawn[d.Key]
	}
	return known
}

// vouch records that a node had its provider ID before any other node: a working node whose devices
// read on and whose claim is undisputed. If a second node claims it later, the next leader can tell
// which was first. The API server ensures that a provider ID never changes.
func (c *checks) vouch(ctx context.Context, n *corev1.Node, plan nodeplan.Plan, found map[string]reading) error {
	claimed := plan.Claimed() // a configuration with an error has no plan
	if len(claimed) == 0 || !ready(n) {
		return nil
	}
	if n.Spec.ProviderID == "" || n.Labels[v1alpha1.LabelProvider] != "" {
		return nil
	}
	for _, d := range claimed {
		if !found[d.Key].on {
			return nil
		}
	}
	node, err := c.client.outside(n)
	if err != nil {
		return err
	}
	return node.Label(ctx, c.config.requireLeader, v1alpha1.LabelProvider, providerHash(n))
}

// publish writes the condition FenceReady of a Ready node if it has changed. It repeats the write
// after a conflict, because Nodes have many writers. Otherwise the condition would be missing until
// the next check.
func (c *checks) publish(ctx context.Context, n *corev1.Node, found readiness) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := c.tryToPublish(ctx, n.Name, found)
		// The answer to a failed test of a patch is Invalid.
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) || !clock.Sleep(ctx, pause) {
			return err
		}
	}
}

// Reasons of the condition FenceReady.
const (
	reasonDevicesRead  = "DevicesRead"
	reasonLevelFlawed  = "LevelUnusable" // with status True: another level of devices can do it
	reasonNotFenceable = "NotFenceable"
)

// condition returns the condition FenceReady.
func (f readiness) condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	c := corev1.NodeCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reasonDevicesRead,
		Message:            "all devices of the node were read",
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}
	switch {
	case f.problem != nil:
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonNotFenceable, f.problem.Error()
	case f.limited != nil:
		c.Reason, c.Message = reasonLevelFlawed, f.limited.Error()
	}
	return c
}

// tryToPublish is one try. It records an Event if the condition has changed. A new controller does
// not repeat the Event at once, but after a while, as long as there is a problem. If the process
// dies between write and Event, only the condition shows the change.
func (c *checks) tryToPublish(ctx context.Context, node string, found readiness) error {
	n, err := c.client.node(ctx, node)
	if err != nil || !ready(n) {
		return err
	}
	condition := found.condition(c.config.Nodes.FenceReadyCondition)
	wrong := condition.Reason != reasonDevicesRead
	conditions := slices.Clone(n.Status.Conditions)
	i := slices.IndexFunc(conditions, func(old corev1.NodeCondition) bool { return old.Type == condition.Type })
	news, turned, same := wrong, found.problem != nil, false // a first result that is good is no news
	if i < 0 {
		conditions = append(conditions, condition)
	} else {
		old := conditions[i]
		turned = old.Status != condition.Status
		news = turned || old.Reason != condition.Reason
		same = !news && old.Message == condition.Message
		if !turned {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		conditions[i] = condition
	}
	if !same {
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/resourceVersion", "value": n.ResourceVersion},
			{"op": "add", "path": "/status/conditions", "value": conditions},
		})
		if err != nil {
			return err
		}
		if _, err = c.client.kube.CoreV1().Nodes().Patch(ctx, node, types.JSONPatchType, patch, metav1.PatchOptions{},
			"status"); err != nil {
			return err
		}
	}
	if news || wrong && c.overdue(node) {
		c.tell(n, condition)
	}
	if hook := c.config.Hooks.OnFenceReady; hook != nil && turned {
		hook(node, found.problem)
	}
	return nil
}

// tell records an Event about the Node.
func (c *checks) tell(n *corev1.Node, condition corev1.NodeCondition) {
	kind := corev1.EventTypeNormal
	if condition.Reason != reasonDevicesRead {
		kind = corev1.EventTypeWarning
	}
	c.config.nodeEvent(n, kind, condition.Reason, "Check", condition.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(n.Name).told = time.Now()
}

// overdue reports whether the last known report of a problem, by this process or the one before, is
// long ago.
func (c *checks) overdue(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.of(node).told
	if last.IsZero() {
		last = c.began
	}
	return time.Since(last) >= repeatEventsAfter
}
