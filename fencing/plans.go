package fencing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/automaton"
	"github.com/bellwether-k8s/bellwether/fencing/config"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// nodeTypeLabel selects configurations for sets of nodes.
const nodeTypeLabel = "type"

// plansLast is how long configurations with errors are good while neither ConfigMaps nor nodes have changed: what is missing may be a Secret or an
// agent, which are not watched.
const plansLast = 30 * time.Second

// plans are the configurations of all nodes.
type plans struct {
	config  Config
	view    *view
	secrets *secrets
	clock   clock.Clock

	mu       sync.Mutex
	resolved *config.Resolution // nil: none yet
	flawless bool               // no node's has an error
	made     clock.Reading
	of       string                   // what it was resolved from
	recent   map[string][]config.Plan // by node, the last one last
}

// kept is how many configurations of a node are kept, so that an incident can end with the one it began with.
const kept = 8

func newPlans(c Config, v *view, s *secrets) *plans {
	return &plans{config: c, view: v, secrets: s, clock: clock.System(), recent: map[string][]config.Plan{}}
}

// errUnresolved says that it is not known how nodes are configured, which is not the same as a wrong configuration.
type errUnresolved struct{ error }

// plan returns how a node is to be fenced: with the configuration of this hash, if it was seen, otherwise with that of today. An error is an
// errUnresolved, or what is wrong with it.
func (p *plans) plan(ctx context.Context, node, hash string) (config.Plan, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, plan := range p.recent[node] {
		if plan.Hash == hash {
			return plan, nil
		}
	}
	if err := p.resolve(ctx); err != nil {
		return config.Plan{}, err
	}
	plan, err := p.resolved.Plan(node)
	if last := len(p.recent[node]) - 1; err == nil && (last < 0 || p.recent[node][last].Hash != plan.Hash) {
		p.recent[node] = append(p.recent[node][max(0, last+2-kept):], plan)
	}
	return plan, err
}

// resolve makes up for changes. The caller holds mu.
func (p *plans) resolve(ctx context.Context) error {
	nodes, configMaps := p.view.configured(p.config.Namespace)
	of := fingerprint(nodes, configMaps)
	now := p.clock.Now()
	if p.resolved != nil && of == p.of && (p.flawless || now.SinceAtMost(p.made) < plansLast) {
		return nil
	}
	var unknown error
	namespace := config.Namespace{ConfigMaps: map[string]map[string]string{}, StrictSecrets: p.config.StrictSecrets}
	for _, m := range configMaps {
		namespace.ConfigMaps[m.Name] = m.Data
	}
	namespace.SecretKeys = func(name string) ([]string, bool) {
		data, found, err := p.secrets.get(ctx, name)
		unknown = errors.Join(unknown, err)
		return slices.Sorted(maps.Keys(data)), found
	}
	namespace.Agent = func(name string) (config.AgentMetadata, bool) {
		metadata, err := p.config.Agents.Metadata(ctx, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unknown = errors.Join(unknown, err)
		}
		return metadata, err == nil
	}
	var all []config.Node
	for _, n := range nodes {
		all = append(all, config.Node{Name: n.Name, ProviderID: n.Spec.ProviderID, Type: n.Labels[nodeTypeLabel]})
	}
	resolved := config.Resolve(namespace, all)
	if unknown != nil {
		return errUnresolved{fmt.Errorf("fencing: find out what the configurations of nodes need: %w", unknown)}
	}
	p.resolved, p.flawless, p.made, p.of = resolved, resolved.Validate() == nil, now, of
	return nil
}

func fingerprint(nodes []*corev1.Node, configMaps []*corev1.ConfigMap) string {
	var parts []string
	for _, n := range nodes {
		parts = append(parts, "n", n.Name, n.Spec.ProviderID, n.Labels[nodeTypeLabel])
	}
	for _, m := range configMaps {
		parts = append(parts, "c", m.Name, string(m.UID), m.ResourceVersion)
	}
	return strings.Join(parts, "\x00")
}

// flow is a configuration as the automaton has it.
func (c *Controller) flow(p config.Plan, known func(device string) bool) (automaton.Plan, error) {
	flow := automaton.Plan{
		Hash: p.Hash, PowerOn: automaton.PowerOn(p.PowerOn), NotReadyFor: given(p.NotReadyFor), PowerWait: given(p.PowerWait), BootGrace: p.BootGrace,
		RestartDelay: c.config.RestartDelay, DetachTimeout: c.config.DetachTimeout, Kdump: p.Kdump, KdumpTimeout: given(p.KdumpTimeout), History: c.config.History,
		Retries: int32(p.Retries), Restarts: int32(p.Restarts),
	}
	if p.Restarts == 0 {
		flow.Restarts = -1
	}
	device := func(d *config.Device) automaton.Device {
		return automaton.Device{Name: d.Key, Settle: d.Settle, Timeout: c.config.CommandTimeout, Known: known(d.Key)}
	}
	if p.Kdump && c.config.Dumps == nil { // to take it and not to wait would cut off the dump that somebody relies on
		return flow, errors.New("fencing: kdump: must be no, as this controller has no Config.Dumps: have power_wait be as long as a dump takes (got \"yes\")")
	}
	if len(p.Isolation) > 1 {
		return flow, errors.New("fencing: isolation.2: fallback levels of the isolation are not supported")
	}
	method := func(m config.Method) automaton.Method {
		converted := automaton.Method{Name: m.Name, Optional: !m.MustSucceed}
		if m.Device != nil {
			d := device(m.Device)
			converted.Device = &d
			_, converted.Storage = c.config.Storage[m.Name]
		}
		return converted
	}
	for _, level := range p.Isolation {
		for _, m := range level {
			flow.Isolation = append(flow.Isolation, method(m))
		}
	}
	for _, level := range p.PowerManagement {
		var off []automaton.Device
		for _, m := range level.Off() {
			off = append(off, device(m.Device))
		}
		if len(off) > 0 {
			flow.Levels = append(flow.Levels, off)
		}
		for _, m := range level {
			flow.DeleteNode = flow.DeleteNode || m.Name == config.DeleteNode
		}
	}
	for _, m := range p.Recovery {
		flow.Recovery = append(flow.Recovery, method(m))
	}
	// Who configures mark-unschedulable as the recovery, as an example of old does, is taken at their word.
	flow.KeepTaint = slices.ContainsFunc(p.Recovery, func(m config.Method) bool { return m.Name == config.MarkUnschedulable })
	return flow, flow.Validate()
}

// given is a wait that was configured: one of 0 is none, which to the automaton would be its default.
func given(wait time.Duration) time.Duration { return max(wait, 1) }

// device finds one of a configuration by its key.
func device(p config.Plan, key string) (*config.Device, bool) {
	for _, d := range p.Devices() {
		if d.Key == key {
			return d, true
		}
	}
	return nil, false
}
