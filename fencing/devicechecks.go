package fencing

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// checks reads the devices of healthy nodes, to find out whether each node could be fenced.
type checks struct {
	*run

	mu      sync.Mutex
	results map[string]check     // by node
	begun   map[string]time.Time // of the last check, by node
	busy    map[string]bool      // nodes that are being checked
	// by node: devices that have contradicted the node, and have not read on since
	withdrawn map[string]map[string]bool

	whole survey // of watch
}

// check is the result of the last reading of a node's devices.
type check struct {
	readiness
	machine machine
	flawed  bool      // the problem is the configuration
	told    time.Time // when it was last reported
}

func newChecks(r *run) *checks {
	return &checks{
		run: r, results: map[string]check{}, begun: map[string]time.Time{}, busy: map[string]bool{},
		withdrawn: map[string]map[string]bool{},
	}
}

// status returns whether the node could be fenced, and why not. It is Missing before the first
// check.
func (c *checks) status(node string) (policy.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch result, ok := c.results[node]; {
	case !ok:
		return policy.Missing, nil
	case result.problem != nil:
		return policy.False, result.problem
	}
	return policy.True, nil
}

// done reports whether the devices of a node were checked.
func (c *checks) done(node string) bool {
	status, _ := c.status(node)
	return status != policy.Missing
}

// watch checks nodes when they are due, until ctx ends.
func (c *checks) watch(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer c.leaveSurvey()
	for {
		nodes, _ := c.state.namespace(c.config.Namespace)
		c.forget(nodes)
		flaws := c.survey(ctx, nodes)
		for _, n := range nodes {
			if !c.due(n, flaws[n.Name] != nil) {
				continue
			}
			all.Go(func() {
				defer c.ends(n.Name)
				c.check(ctx, n)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// forget removes the results of nodes that are gone.
func (c *checks) forget(nodes []*corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.begun) <= len(nodes) {
		return
	}
	there := map[string]bool{}
	for _, n := range nodes {
		there[n.Name] = true
	}
	for node := range c.begun {
		if !there[node] {
			delete(c.begun, node)
			delete(c.results, node)
			delete(c.withdrawn, node)
		}
	}
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
	if c.busy[n.Name] {
		return false
	}
	interval, result := c.config.CheckInterval, c.results[n.Name]
	if result.problem != nil || result.limited != nil {
		interval = min(interval, time.Minute)
	}
	// Another machine, or one that was restarted: earlier results are void.
	another := ready(n) && result.machine != machineOf(n) ||
		result.flawed != flawed
	now := time.Now()
	if last, ok := c.begun[n.Name]; ok && round(n.Name, now, interval) == round(n.Name, last, interval) &&
		(!another || now.Sub(last) < tick) {
		return false
	}
	c.begun[n.Name], c.busy[n.Name] = now, true
	return true
}

// round numbers the intervals of a node's checks. Those of different nodes begin at different
// times, so that checks are spread after the first one.
func round(node string, at time.Time, interval time.Duration) int64 {
	begins := int64(xxhash.Sum64String(node) % uint64(interval))
	return (at.UnixNano() - begins) / int64(interval)
}

// ends releases the reservation of a check.
func (c *checks) ends(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, node)
}

// check reads all devices of a node and publishes the result.
func (c *checks) check(ctx context.Context, n *corev1.Node) {
	plan, err := c.plans.plan(ctx, n.Name, "")
	result, found := c.inspect(ctx, n, plan, err)
	if ctx.Err() != nil {
		return
	}
	if err := c.remember(ctx, n, plan, found); err != nil && ctx.Err() == nil {
		c.role.Refused(err)
		c.config.Logger.Debug("devices seen on not recorded, retrying", zap.String("node", n.Name), zap.Error(err))
		result.limited = errors.Join(result.limited, err) // soon
	}
	if err := c.vouch(ctx, n, plan, found); err != nil && ctx.Err() == nil {
		c.role.Refused(err)
		c.config.Logger.Debug("provider ID not recorded, retrying",
			zap.String("node", n.Name), zap.Error(err))
	}
	before, checked := c.note(n.Name, result)
	if hook := c.config.Hooks.OnCheck; hook != nil {
		hook(n.Name, result.problem)
	}
	if !checked || (before.problem == nil) != (result.problem == nil) {
		if result.problem != nil {
			c.config.Logger.Warn("node cannot be fenced", zap.String("node", n.Name), zap.Error(result.problem))
		}
		c.wake(n.Name)
	}
	if err := c.publish(ctx, n, result.readiness); err != nil && ctx.Err() == nil {
		c.role.Refused(err)
		c.config.Logger.Debug("condition FenceReady not written, retrying", zap.String("node", n.Name), zap.Error(err))
	}
}

// inspect reads all devices of a node without any change. The error is about its configuration.
func (c *checks) inspect(
	ctx context.Context,
	n *corev1.Node,
	plan nodeconfig.Plan,
	err error,
) (check, map[string]reading) {
	result := check{machine: machineOf(n)}
	if err == nil {
		_, err = c.flow(plan, unknown)
	}
	if err != nil {
		result.problem, result.flawed = err, true
		return result, nil
	}
	found := c.read(ctx, n.Name, plan)
	c.contradict(ctx, n, plan, found)
	seen := seenOf(n).after(plan, found, "", time.Time{})
	result.readiness = readyBy(plan, found, seen.has)
	if plan.Kdump {
		result.problem = errors.Join(result.problem, c.dumps.want(ctx))
	}
	return result, found
}

// note stores the result of a check, and returns the one before.
func (c *checks) note(node string, result check) (before check, checked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, checked = c.results[node]
	result.told = before.told
	c.results[node] = result
	return before, checked
}

// read reads all devices of a node.
func (c *checks) read(ctx context.Context, node string, plan nodeconfig.Plan) map[string]reading {
	found := map[string]reading{}
	for _, d := range plan.Devices() {
		power, err := c.readOne(ctx, node, d)
		found[d.Key] = reading{power: power, err: err}
	}
	return found
}

func (c *checks) readOne(ctx context.Context, node string, d *nodeconfig.Device) (agent.Power, error) {
	end, err := c.turns.take(ctx, d.Queue, false)
	if err != nil {
		return agent.PowerUnknown, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, c.timeout(d))
	defer cancel()
	target, err := c.secrets.target(ctx, node, d)
	if err != nil {
		return agent.PowerUnknown, err
	}
	return c.config.Agents.Power(ctx, target)
}

// contradict compares the readings with whether the node works. A node that has just died is still
// shown Ready. Only a renewal of its Lease between two readings without power proves a
// contradiction.
func (c *checks) contradict(ctx context.Context, n *corev1.Node, plan nodeconfig.Plan, found map[string]reading) {
	off := slices.DeleteFunc(plan.Devices(), func(d *nodeconfig.Device) bool {
		return found[d.Key].err != nil || found[d.Key].power != agent.PowerOff
	})
	for device, r := range found {
		r.on = r.err == nil && r.power == agent.PowerOn && ready(n)
		found[device] = r
	}
	if len(off) == 0 || !ready(n) || !c.outlives(ctx, n.Name) {
		return
	}
	for _, d := range off {
		power, err := c.readOne(ctx, n.Name, d)
		found[d.Key] = reading{power: power, err: err, contradicts: err == nil && power == agent.PowerOff}
	}
}

// outlives reports whether the node renews its Lease within its renewal interval from now.
func (c *checks) outlives(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.config.Limits.LeaseSilence)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var first string
	for {
		renewal, err := c.lookAtLease(ctx, node)
		switch {
		case err != nil:
		case first == "":
			first = renewal
		case renewal != "" && renewal != first:
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
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
		if !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
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
	n, err := c.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err = kube.Named(n, node, err); err != nil || !ready(n) {
		return err
	}
	condition := found.condition(c.config.Nodes.FenceReadyCondition)
	wrong := condition.Reason != reasonDevicesRead
	conditions := slices.Clone(n.Status.Conditions)
	i := slices.IndexFunc(conditions, func(old corev1.NodeCondition) bool { return old.Type == condition.Type })
	var news, turned bool
	switch {
	case i < 0: // the first result, and it is good: no Event
		news, turned = wrong, found.problem != nil
		conditions = append(conditions, condition)
	default:
		old := conditions[i]
		news, turned = old.Status != condition.Status || old.Reason != condition.Reason, old.Status != condition.Status
		if !turned {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		conditions[i] = condition
		if !news && old.Message == condition.Message {
			c.tell(n, condition, wrong && c.overdue(node))
			return nil
		}
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": n.ResourceVersion},
		{"op": "add", "path": "/status/conditions", "value": conditions},
	})
	if err != nil {
		return err
	}
	if _, err = c.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.JSONPatchType, patch, metav1.PatchOptions{},
		"status"); err != nil {
		return err
	}
	c.tell(n, condition, news || wrong && c.overdue(node))
	if hook := c.config.Hooks.OnFenceReady; hook != nil && turned {
		hook(n.Name, found.problem)
	}
	return nil
}

// tell records an Event about the Node.
func (c *checks) tell(n *corev1.Node, condition corev1.NodeCondition, it bool) {
	if !it {
		return
	}
	kind := corev1.EventTypeNormal
	if condition.Reason != reasonDevicesRead {
		kind = corev1.EventTypeWarning
	}
	c.nodeEvent(n, kind, condition.Reason, "Check", condition.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	result := c.results[n.Name]
	result.told = time.Now()
	c.results[n.Name] = result
}

// overdue reports whether the last known report of a problem, by this process or the one before, is
// long ago.
func (c *checks) overdue(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.results[node].told
	if last.IsZero() {
		last = c.began
	}
	return time.Since(last) >= repeatEventsAfter
}

// selected reports whether the node may be fenced by this process or, if it is its own node, by
// another one.
func (v *clusterState) selected(n *corev1.Node) bool {
	facts, ok := v.factsOf(n.Name, time.Now())
	return ok && facts.Selected && !facts.Excluded && !facts.Deleting
}
