package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// Reasons of the Events about the configuration as a whole.
const (
	reasonUnusable = "ConfigurationUnusable"
	reasonUsable   = "ConfigurationUsable"
)

// survey is what was said last of the configuration as a whole.
type survey struct {
	known bool
	wrong error     // what keeps all nodes from being fenced; nil: one at least has a configuration
	told  time.Time // when people were told of it last
}

// flaws returns what is wrong with the configuration of each node that has a flaw. The error is
// that of ctx.
func (p *planCache) flaws(ctx context.Context, usable func(nodeconfig.Plan) error) (flaws map[string]error, err error) {
	select {
	case p.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.lock }()
	if p.resolve(ctx); p.surveyed == p.resolved {
		return p.flawed, ctx.Err()
	}
	flaws = map[string]error{}
	configured := map[string]bool{}
	for node := range p.nodes {
		plan, err := p.current(node)
		if err == nil {
			err = usable(plan)
		}
		if err != nil {
			flaws[node] = err
		}
		problems := nodeconfig.Problems(err)
		nothing := len(problems) > 0 && problems[0].Kind == nodeconfig.NotConfigured
		configured[node] = p.resolved.Object(node) != nodeconfig.BuiltIn || !nothing
	}
	p.state.configured.Store(&configured)
	p.surveyed, p.flawed = p.resolved, flaws
	return flaws, ctx.Err()
}

// flaws returns what is wrong with the configuration of each node that has a flaw.
func (c *checks) flaws(ctx context.Context) (map[string]error, error) {
	return c.plans.flaws(ctx, func(plan nodeconfig.Plan) error {
		_, err := c.flow(plan, unknown)
		return err
	})
}

// survey finds out which nodes have no configuration that can be used, and tells people if that is
// so of all: then the fencer is as good as none, whatever became of each node.
func (c *checks) survey(ctx context.Context, nodes []*corev1.Node) map[string]error {
	flaws, err := c.flaws(ctx)
	if err != nil {
		return nil
	}
	var selected, flawed, bare int
	var said []string
	for _, n := range nodes {
		if !c.state.selected(n) {
			if facts, ok := c.state.nodes.FactsOf(n.Name, time.Now()); ok && facts.Selected && !facts.Excluded {
				bare++
			}
			continue
		}
		selected++
		if flaw := flaws[n.Name]; flaw != nil {
			flawed++
			// The first of each node's: the node itself says the rest.
			if text, _, _ := strings.Cut(flaw.Error(), "\n"); !slices.Contains(said, text) {
				said = append(said, text)
			}
		}
	}
	var wrong error
	switch {
	case selected > 0 && flawed == selected:
		wrong = errors.New(few(said))
	case selected == 0 && bare > 0 && c.config.OnlyConfigured:
		wrong = errors.New("there is no ConfigMap for any node")
	}
	c.tellAll(wrong)
	return flaws
}

// few is the first of many texts.
func few(texts []string) string {
	const shown = 3
	if more := len(texts) - shown; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(texts[:shown], "; "), more)
	}
	return strings.Join(texts, "; ")
}

// tellAll tells people of the configuration as a whole: when it has become unusable or usable, and
// every repeatEventsAfter as long as it is not. Only watch calls it.
func (c *checks) tellAll(wrong error) {
	before := c.whole
	turned := (before.wrong == nil) != (wrong == nil)
	c.whole.known, c.whole.wrong = true, wrong
	if hook := c.config.Hooks.OnConfiguration; hook != nil && (turned || !before.known) {
		hook(wrong)
	}
	switch {
	case turned && wrong == nil:
		c.config.Logger.Info("a node has a usable configuration again")
		c.namespaceEvent(corev1.EventTypeNormal, reasonUsable, "a node has a configuration that can be used again")
	case wrong != nil && (turned || time.Since(before.told) >= repeatEventsAfter):
		c.whole.told = time.Now()
		if turned {
			c.config.Logger.Error("no node has a usable configuration", zap.Error(wrong))
		}
		c.namespaceEvent(corev1.EventTypeWarning, reasonUnusable,
			"no node can be fenced: none has a configuration that can be used: "+wrong.Error())
	}
}

// leaveSurvey says that this process does not know any more.
func (c *checks) leaveSurvey() {
	if hook := c.config.Hooks.OnConfiguration; hook != nil && c.whole.wrong != nil {
		hook(nil)
	}
}

// namespaceEvent tells people who look at the namespace of the configuration.
func (c *Controller) namespaceEvent(eventType, reason, text string) {
	if c.config.Events == nil {
		return
	}
	about := &corev1.Namespace{}
	about.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	// Events are in the namespace of what they are about, as far as that has one.
	about.Name, about.Namespace = c.config.Namespace, c.config.Namespace
	c.config.Events.Eventf(about, nil, eventType, reason, "Configure", "%s", note(text))
}
