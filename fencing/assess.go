package fencing

import (
	"context"
	"errors"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Assessment is what would become of a node if it had to be fenced now.
type Assessment struct {
	Node string
	// Object is the ConfigMap that says how it is fenced, or "built-in".
	Object string
	// Err is what is wrong with its configuration or its devices.
	Err error
	// Warnings are about its configuration, and levels of devices that could not do it where another one could.
	Warnings []string
	// Unproved names the power devices that no commission has proved to be the node's, with their present configuration.
	Unproved []string
	// Decision is what the policy says of switching its machine off now, with everything that stands in the way. For a node that works that is at least
	// that it works.
	Decision Decision
}

// Assess says of every node that may be fenced whether it would be now, and why not. It changes nothing, needs no leadership, and may be called beside Run. It
// reads all devices, and watches the nodes for Limits.Observation before it says anything.
func (c *Controller) Assess(ctx context.Context) ([]Assessment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := c.begin(ctx)
	if r != nil {
		defer r.end(cancel)
	}
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) <= c.config.Limits.withDefaults().Observation+tick; {
		r.state.observe()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
	if _, err := r.checks.flaws(ctx); err != nil {
		return nil, err
	}
	nodes, _ := r.state.namespace(c.config.Namespace)
	var all []Assessment
	for _, n := range nodes {
		if !r.state.selected(n) {
			continue
		}
		a := Assessment{Node: n.Name}
		plan, err := r.plans.plan(ctx, n.Name, "")
		result, _ := r.checks.inspect(ctx, n, plan, err)
		r.checks.note(n.Name, result)
		a.Object, a.Err = plan.Object, result.problem
		for _, w := range plan.Warnings {
			a.Warnings = append(a.Warnings, w.Error())
		}
		if result.limited != nil {
			a.Warnings = append(a.Warnings, result.limited.Error())
		}
		target := policy.Target{Name: n.Name, UID: string(n.UID), NotReadyFor: given(plan.NotReadyFor), WithoutPower: len(plan.PowerManagement) == 0}
		for _, level := range plan.PowerManagement {
			target.Devices += len(level.Off())
		}
		if _, wrong := r.flow(plan, unknown); err != nil || wrong != nil {
			target.ConfigErrors = []string{errors.Join(err, wrong).Error()}
		} else {
			a.Unproved = r.unproved(n.Name, plan)
		}
		if r.config.RequireCommissioned {
			target.Unproved = a.Unproved
		}
		a.Decision = newDecision(r.state.assess(target))
		all = append(all, a)
	}
	return all, ctx.Err()
}
