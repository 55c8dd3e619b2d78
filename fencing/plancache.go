package fencing

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// plansLast is how long configurations with errors are cached while ConfigMaps and nodes are
// unchanged. The error may be about a Secret or an agent, which are not watched.
const plansLast = 30 * time.Second

// planCache has the configurations of all nodes.
type planCache struct {
	config  Config
	state   *clusterState
	secrets *secrets
	clock   clock.Clock
	begins  func(func()) bool // runs a function in a goroutine

	// guards the following fields: a channel, because agents and Secrets are read under it
	lock     chan struct{}
	resolved *nodeconfig.Resolution // nil before the first one
	flawless bool                   // no configuration has an error
	made     clock.Reading
	changes  int64                      // of its inputs
	again    bool                       // it is being resolved again
	nodes    map[string]nodeconfig.Node // of the resolution
	of       string                     // the versions of its ConfigMaps
	recent   map[string][]nodeplan.Plan
	good     map[string]origin // of the last one of recent, by node

	surveyed *nodeconfig.Resolution // of flawed
	flawed   map[string]error       // problems by node

	silent silentAgents

	used *atomic.Pointer[uses] // by all configurations; points to nil while that is not known
}

// origin has the input of a configuration, without Secrets and agents.
type origin struct {
	node nodeconfig.Node
	maps string
}

// kept is how many configurations of a node are kept, so that an incident can end with its own.
const kept = 8

func newPlanCache(
	c Config, v *clusterState, s *secrets, begins func(func()) bool, used *atomic.Pointer[uses],
) *planCache {
	return &planCache{
		lock: make(chan struct{}, 1), config: c, state: v, secrets: s, clock: clock.System(), begins: begins,
		used:   used,
		recent: map[string][]nodeplan.Plan{}, good: map[string]origin{},
	}
}

// plan returns the configuration of a node: the one with this hash if it is known, otherwise the
// current one. The error is about the configuration. An earlier valid configuration stays if a
// Secret cannot be read or an agent does not answer.
func (p *planCache) plan(ctx context.Context, node, hash string) (nodeplan.Plan, error) {
	select {
	case p.lock <- struct{}{}:
	case <-ctx.Done():
		return nodeplan.Plan{}, ctx.Err()
	}
	defer func() { <-p.lock }()
	for _, plan := range slices.Backward(p.recent[node]) {
		if plan.Hash == hash {
			return plan, nil
		}
	}
	p.resolve(ctx)
	return p.current(node)
}

// current returns the configuration of a node as it was resolved last. The caller holds the lock.
func (p *planCache) current(node string) (nodeplan.Plan, error) {
	recent := p.recent[node]
	plan, err := p.resolved.Plan(node)
	last, of := len(recent)-1, origin{p.nodes[node], p.of}
	of.node.Since = 0 // being vouched for does not invalidate a configuration
	switch {
	case err == nil:
		p.good[node] = of
		if last >= 0 && recent[last].Hash == plan.Hash {
			recent[last] = plan // what has changed may change during an incident
		} else {
			p.recent[node] = append(recent[max(0, last+2-kept):], plan)
		}
	case errors.Is(err, nodeconfig.ErrUnread) && last >= 0 && p.good[node] == of:
		return recent[last], nil
	}
	return plan, err
}

// resolve updates the configurations after changes. Configurations with errors are resolved again
// after a while, in the background, so that an agent that does not answer delays no other node. The
// caller holds the lock.
func (p *planCache) resolve(ctx context.Context) {
	nodes, configMaps := p.state.namespace()
	in := inputs{nodes: map[string]nodeconfig.Node{}, maps: map[string]map[string]string{}}
	for _, n := range nodes {
		node := nodeconfig.Node{
			Name: n.Name, ProviderID: n.Spec.ProviderID, Type: n.Labels[p.config.TypeLabel], Since: p.changes + 1,
		}
		if before, known := p.nodes[n.Name]; known && before.ProviderID == node.ProviderID && before.Since > 0 {
			node.Since = before.Since
		}
		if vouched(n) {
			node.Since = 0
		}
		in.nodes[n.Name] = node
	}
	var versions []string
	for _, m := range configMaps {
		in.maps[m.Name] = m.Data
		versions = append(versions, m.Name, string(m.UID), m.ResourceVersion)
	}
	in.of = strings.Join(versions, "\x00")
	now := p.clock.Now()
	same := p.resolved != nil && in.of == p.of && maps.Equal(in.nodes, p.nodes)
	switch {
	case !same:
		p.changes++
		if p.silent.any() {
			now = p.made // the background asks again in time
		}
		p.take(in, p.resolution(ctx, in, false), now)
	case !p.flawless && !p.again && now.SinceAtMost(p.made) >= plansLast:
		p.again = p.begins(func() {
			resolved := p.resolution(ctx, in, true)
			p.lock <- struct{}{}
			defer func() { <-p.lock }()
			if p.again = false; in.of == p.of && maps.Equal(in.nodes, p.nodes) && ctx.Err() == nil {
				p.take(in, resolved, p.clock.Now())
			}
		})
	}
}

// inputs has the inputs of all configurations, without Secrets and agents.
type inputs struct {
	nodes map[string]nodeconfig.Node
	maps  map[string]map[string]string
	of    string // their versions
}

func (p *planCache) take(in inputs, resolved *nodeconfig.Resolution, now clock.Reading) {
	p.resolved, p.flawless, p.made, p.nodes, p.of = resolved, resolved.Validate() == nil, now, in.nodes, in.of
	for node := range p.recent {
		if _, there := in.nodes[node]; !there && p.state.fence(node) == nil {
			delete(p.recent, node)
			delete(p.good, node)
		}
	}
}

func (p *planCache) resolution(ctx context.Context, in inputs, again bool) *nodeconfig.Resolution {
	namespace := nodeconfig.Namespace{
		ConfigMaps: in.maps, StrictSecrets: p.config.StrictSecrets, NotReadyFor: p.config.Limits.NotReadyFor,
		CommandTimeout: p.config.CommandTimeout, Storage: map[string]bool{},
	}
	for method := range p.config.Storage {
		namespace.Storage[method] = true
	}
	namespace.SecretKeys = func(name string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		data, found, err := p.secrets.get(ctx, name)
		if err == nil && !found {
			err = fs.ErrNotExist
		}
		return slices.Sorted(maps.Keys(data)), err
	}
	namespace.Agent = func(name string) (agent.Metadata, error) {
		return p.silent.ask(name, again, p.clock, func() (agent.Metadata, error) {
			ctx, cancel := context.WithTimeout(ctx, p.config.CommandTimeout)
			defer cancel()
			return p.config.Agents.Metadata(ctx, name)
		})
	}
	var nodes []nodeconfig.Node
	for _, name := range slices.Sorted(maps.Keys(in.nodes)) {
		nodes = append(nodes, in.nodes[name])
	}
	return nodeconfig.Resolve(namespace, nodes)
}

// usable reports what prevents a fence with this plan.
func (c *Config) usable(plan nodeplan.Plan) error {
	if plan.Kdump && c.Dumps == nil { // to accept it without waiting would cut off the dump
		return errors.New(
			"fencing: kdump: must be no, as this controller has no Config.Dumps: have power_wait be as long as a " +
				"dump takes (got \"yes\")",
		)
	}
	return statemachine.Validate(plan)
}
