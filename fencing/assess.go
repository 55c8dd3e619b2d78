package fencing

import (
	"context"
	"errors"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Assessment states whether a node could be fenced now.
type Assessment struct {
	Node string
	// Object is the name of the ConfigMap with the node's configuration, or "built-in".
	Object string
	// Err is the error in its configuration or its devices.
	Err error
	// Warnings concern its configuration, and levels of devices that do not work while another
	// level does.
	Warnings []string
	// Unproved lists the power devices that were not commissioned with their present configuration.
	Unproved []string
	// Decision is the decision about switching the machine off now. For a node that works, at least
	// the gate Duration forbids it.
	Decision api.Decision
}

// Assess reports for every node that may be fenced whether it could be fenced now, and why not. It
// changes nothing, needs no leadership and may run beside Run. It reads all devices, and watches
// the nodes for Limits.Observation before it returns.
func (c *Controller) Assess(ctx context.Context) ([]Assessment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := c.begin(ctx, kube.NewRole(c.config.Logger))
	if t != nil {
		defer t.end(cancel)
	}
	if err != nil {
		return nil, err
	}
	for began := time.Now(); time.Since(began) <= c.config.Limits.Observation+tick; {
		t.state.observe()
		if !clock.Sleep(ctx, tick) {
			return nil, ctx.Err()
		}
	}
	if _, err := t.plans.flaws(ctx); err != nil {
		return nil, err
	}
	nodes, _ := t.state.namespace()
	var all []Assessment
	for _, n := range nodes {
		if !t.state.selected(n) {
			continue
		}
		a := Assessment{Node: n.Name}
		plan, err := t.plans.plan(ctx, n.Name, "")
		result, _ := t.checks.inspect(ctx, n, plan, err)
		t.state.noteCheck(n.Name, result.problem)
		a.Object, a.Err = plan.Object, result.problem
		for _, w := range plan.Warnings {
			a.Warnings = append(a.Warnings, w.Error())
		}
		if result.limited != nil {
			a.Warnings = append(a.Warnings, result.limited.Error())
		}
		target := policy.Target{
			Name:         n.Name,
			UID:          string(n.UID),
			NotReadyFor:  given(plan.NotReadyFor),
			WithoutPower: len(plan.PowerManagement) == 0,
		}
		for _, level := range plan.PowerManagement {
			target.Devices += len(level.Off())
		}
		if wrong := c.config.usable(plan); err != nil || wrong != nil {
			target.ConfigErrors = []string{errors.Join(err, wrong).Error()}
		} else {
			a.Unproved = t.state.unproved(n.Name, plan)
		}
		if c.config.RequireCommissioned {
			target.Unproved = a.Unproved
		}
		a.Decision = t.state.assess(target)
		all = append(all, a)
	}
	return all, ctx.Err()
}
