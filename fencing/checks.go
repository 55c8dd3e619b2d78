package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/config"
	"github.com/bellwether-k8s/bellwether/fencing/policy"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// checksAtOnce is how many nodes have their devices read at the same time.
const checksAtOnce = 8

// checks are readings of devices while nothing is wrong: whether a node could be fenced, if it had to be.
type checks struct {
	*run

	mu      sync.Mutex
	results map[string]check     // by node
	begun   map[string]time.Time // when the last one was, by node
}

// check is what the last reading of a node's devices has found.
type check struct {
	hash string
	err  error
	on   map[string]bool // devices that were on while the node was Ready
}

func newChecks(r *run) *checks {
	return &checks{run: r, results: map[string]check{}, begun: map[string]time.Time{}}
}

// known says whether a device was read on, with this configuration, while the node was Ready.
func (c *checks) known(node, hash, device string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	result := c.results[node]
	return result.hash == hash && result.on[device]
}

// status says whether the node could be fenced: Missing if that was not checked.
func (c *checks) status(node string) policy.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch result, ok := c.results[node]; {
	case !ok:
		return policy.Missing
	case result.err != nil:
		return policy.False
	}
	return policy.True
}

// watch checks nodes whose time has come, until ctx ends.
func (c *checks) watch(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	slots := make(chan struct{}, checksAtOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		nodes, _ := c.view.configured(c.config.Namespace)
		for _, n := range nodes {
			if !c.due(n) {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-slots }()
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

// due says that the node is to be checked now, and takes the task. Devices of a fence that is under way are left alone.
func (c *checks) due(n *corev1.Node) bool {
	if f := c.view.fence(n.Name); f != nil && standing(f) != policy.FenceNone && standing(f) != policy.FenceQueued {
		return false
	}
	if !c.view.selected(n) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	interval := c.config.CheckInterval
	if c.results[n.Name].err != nil {
		interval = min(interval, time.Minute)
	}
	if last, ok := c.begun[n.Name]; ok && time.Since(last) < interval {
		return false
	}
	c.begun[n.Name] = time.Now()
	return true
}

// check reads all devices of a node.
func (c *checks) check(ctx context.Context, n *corev1.Node) {
	result := check{on: map[string]bool{}}
	plan, err := c.plans.plan(ctx, n.Name, "")
	if err == nil {
		result.hash = plan.Hash
		_, err = c.flow(plan, func(string) bool { return false })
	}
	if errors.As(err, &errUnresolved{}) || ctx.Err() != nil {
		return
	}
	if err == nil {
		var powers map[string]v1alpha1.Power
		powers, err = c.read(ctx, n.Name, plan)
		for device, power := range powers {
			result.on[device] = power == v1alpha1.PowerOn && ready(n)
		}
		if plan.Kdump {
			err = errors.Join(err, c.dumps.want(ctx))
		}
	}
	if ctx.Err() != nil {
		return
	}
	result.err = err
	before, checked := c.note(n.Name, result)
	if hook := c.config.Hooks.OnCheck; hook != nil {
		hook(n.Name, err)
	}
	if !checked || (before.err == nil) != (err == nil) {
		if err != nil {
			c.config.Logger.Warn("a node could not be fenced", zap.String("node", n.Name), zap.Error(err))
		}
		c.wake(n.Name)
	}
	if err := c.publish(ctx, n, err); err != nil && ctx.Err() == nil {
		c.config.Logger.Debug("the condition FenceReady could not be written", zap.String("node", n.Name), zap.Error(err))
	}
}

// note keeps what a check has found, and returns what the one before it had.
func (c *checks) note(node string, result check) (before check, checked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, checked = c.results[node]
	for device := range before.on { // a machine that is off for a while is still the one that it was
		if before.hash == result.hash && before.on[device] {
			result.on[device] = true
		}
	}
	c.results[node] = result
	return before, checked
}

// read reads all devices of a node.
func (c *checks) read(ctx context.Context, node string, plan config.Plan) (map[string]v1alpha1.Power, error) {
	powers := map[string]v1alpha1.Power{}
	var wrong []error
	for _, d := range plan.Devices() {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, c.config.CommandTimeout)
			defer cancel()
			target, err := c.secrets.target(ctx, node, d)
			if err == nil {
				powers[d.Key], err = c.config.Agents.Power(ctx, target)
			}
			return err
		}()
		if err != nil {
			wrong = append(wrong, fmt.Errorf("device %s: %w", d.Key, err))
		}
	}
	return powers, errors.Join(wrong...)
}

// publish writes the condition FenceReady of a node that is Ready, if it has changed. Nodes are written by many: it is tried anew when somebody else was
// faster, or the node would not say until it is checked again.
func (c *checks) publish(ctx context.Context, n *corev1.Node, problem error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := c.tryToPublish(ctx, n.Name, problem)
		// A failed test of a patch is answered as Invalid.
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

// tryToPublish is one try. People are told when the condition is another than the node had: a controller that has just begun does not tell them anew. Who
// dies between the two does not tell them at all, but the condition does.
func (c *checks) tryToPublish(ctx context.Context, node string, problem error) error {
	n, err := c.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil || !ready(n) {
		return err
	}
	condition := corev1.NodeCondition{
		Type: c.config.Nodes.FenceReadyCondition, Status: corev1.ConditionTrue, Reason: "DevicesRead", Message: "all devices of the node were read",
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}
	if problem != nil {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "NotFenceable", problem.Error()
	}
	// That a node which nobody has checked before can be fenced is as it should be.
	changed := problem != nil
	conditions := slices.Clone(n.Status.Conditions)
	i := slices.IndexFunc(conditions, func(old corev1.NodeCondition) bool { return old.Type == condition.Type })
	switch {
	case i < 0:
		conditions = append(conditions, condition)
	case conditions[i].Status == condition.Status && conditions[i].Message == condition.Message:
		return nil
	default:
		changed = conditions[i].Status != condition.Status
		if !changed {
			condition.LastTransitionTime = conditions[i].LastTransitionTime
		}
		conditions[i] = condition
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/resourceVersion", "value": n.ResourceVersion},
		{"op": "add", "path": "/status/conditions", "value": conditions},
	})
	if err != nil {
		return err
	}
	if _, err = c.kube.CoreV1().Nodes().Patch(ctx, n.Name, types.JSONPatchType, patch, metav1.PatchOptions{}, "status"); err != nil || !changed {
		return err
	}
	kind := corev1.EventTypeNormal
	if problem != nil {
		kind = corev1.EventTypeWarning
	}
	c.nodeEvent(n, kind, condition.Reason, "Check", condition.Message)
	if hook := c.config.Hooks.OnFenceReady; hook != nil {
		hook(n.Name, problem)
	}
	return nil
}

// selected says that the node may be fenced, by this process or, where it is its own, by another.
func (v *view) selected(n *corev1.Node) bool {
	facts, ok := v.nodes.FactsOf(n.Name, time.Now())
	return ok && facts.Selected && !facts.Excluded && !facts.Deleting
}
