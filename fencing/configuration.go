package fencing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Reasons of the Events about the configuration as a whole.
const (
	reasonUnusable = "ConfigurationUnusable"
	reasonUsable   = "ConfigurationUsable"
)

// survey reports on the configuration as a whole. Only one goroutine uses it.
type survey struct {
	config *Config
	state  *clusterState
	plans  *planCache

	known bool
	wrong error     // why no node can be fenced; nil if at least one has a configuration
	told  time.Time // when it was last reported
}

// flaws returns the problems of the nodes' configurations. The error is that of ctx.
func (p *planCache) flaws(ctx context.Context) (flaws map[string]error, err error) {
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
	used := uses{methods: map[string]bool{}}
	configured := map[string]bool{}
	for node := range p.nodes {
		plan, err := p.current(node)
		used.note(plan)
		if err == nil {
			err = p.config.usable(plan)
		}
		if err != nil {
			flaws[node] = err
		}
		configured[node] = !errors.Is(err, nodeconfig.ErrNotConfigured)
	}
	p.state.configured.Store(&configured)
	used.secrets = p.secrets.used.Load()
	// A node whose name is misspelt there is fenced in another way.
	if unused := unusedIn(p.resolved); len(unused) > 0 && !slices.Equal(unused, unusedIn(p.surveyed)) {
		p.config.Logger.Warn("a configuration is that of no node", zap.Strings("problems", unused))
	}
	p.surveyed, p.flawed = p.resolved, flaws
	// A missing right would otherwise show only when a node is lost.
	if before := p.used.Swap(&used); (before == nil || !before.equal(used)) && ctx.Err() == nil {
		kube.RoleOf(ctx).Suspect()
	}
	return flaws, ctx.Err()
}

// unusedIn describes the configurations of no node.
func unusedIn(r *nodeconfig.Resolution) (texts []string) {
	if r == nil {
		return nil
	}
	for _, problem := range r.Unused() {
		texts = append(texts, problem.Error())
	}
	return texts
}

// take finds the nodes without a usable configuration. If no node has one, it reports that,
// because the fencer then has no effect.
func (s *survey) take(ctx context.Context, nodes []*corev1.Node) map[string]error {
	flaws, err := s.plans.flaws(ctx)
	if err != nil {
		return nil
	}
	var selected, flawed, bare int
	var said []string
	for _, n := range nodes {
		if !s.state.selected(n) {
			if facts, ok := s.state.nodes.FactsOf(n.Name, time.Now()); ok && facts.Selected && !facts.Excluded {
				bare++
			}
			continue
		}
		selected++
		if flaw := flaws[n.Name]; flaw != nil {
			flawed++
			// The first problem of each node. The node has the rest.
			if text, _, _ := strings.Cut(flaw.Error(), "\n"); !slices.Contains(said, text) {
				said = append(said, text)
			}
		}
	}
	var wrong error
	switch {
	case selected > 0 && flawed == selected:
		wrong = errors.New(few(said))
	case selected == 0 && bare > 0 && s.config.OnlyConfigured:
		wrong = errors.New("there is no ConfigMap for any node")
	}
	s.tell(wrong)
	return flaws
}

// few returns the first of many texts.
func few(texts []string) string {
	const shown = 3
	if more := len(texts) - shown; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(texts[:shown], "; "), more)
	}
	return strings.Join(texts, "; ")
}

// tell reports when the configuration as a whole becomes unusable or usable, and every
// repeatEventsAfter while it is unusable.
func (s *survey) tell(wrong error) {
	before := *s
	turned := (before.wrong == nil) != (wrong == nil)
	s.known, s.wrong = true, wrong
	if hook := s.config.Hooks.OnConfiguration; hook != nil && (turned || !before.known) {
		hook(wrong)
	}
	switch {
	case turned && wrong == nil:
		s.config.Logger.Info("a node has a usable configuration again")
		s.config.namespaceEvent(corev1.EventTypeNormal, reasonUsable,
			"a node has a configuration that can be used again")
	case wrong != nil && (turned || time.Since(before.told) >= repeatEventsAfter):
		s.told = time.Now()
		if turned {
			s.config.Logger.Error("no node has a usable configuration", zap.Error(wrong))
		}
		s.config.namespaceEvent(corev1.EventTypeWarning, reasonUnusable,
			"no node can be fenced: none has a configuration that can be used: "+wrong.Error())
	}
}

// leave reports that this process no longer knows.
func (s *survey) leave() {
	if hook := s.config.Hooks.OnConfiguration; hook != nil && s.wrong != nil {
		hook(nil)
	}
}

// uses has what the configurations of nodes need beyond what every fence needs.
type uses struct {
	methods map[string]bool // the built-in ones among them
	secrets bool
}

func (u uses) equal(other uses) bool {
	return u.secrets == other.secrets && maps.Equal(u.methods, other.methods)
}

// note adds what a configuration uses.
func (u *uses) note(plan nodeplan.Plan) {
	for _, level := range plan.Levels() {
		for _, m := range level {
			if m.Device == nil {
				u.methods[m.Name] = true
			}
		}
	}
}

// rights returns the rights that a controller needs with this configuration. used is nil while the
// configurations of nodes are not known.
func (c *Config) rights(used *uses) []kube.Right {
	var u uses
	if used != nil {
		u = *used
	}
	var all []kube.Right
	add := func(resource schema.GroupResource, namespace string, verbs ...string) {
		all = append(all, kube.RightsOn(resource, namespace, "", verbs...)...)
	}
	evicts := u.methods[nodeplan.CleanPods] || u.methods[nodeplan.DetachVolumes]
	fences := v1alpha1.Resource().GroupResource()
	add(corev1.Resource("nodes"), "", "get", "list", "watch", "patch")
	add(corev1.Resource("nodes/status"), "", "patch")
	add(coordinationv1.Resource("leases"), corev1.NamespaceNodeLease, "get", "list", "watch")
	add(fences, "", "get", "list", "watch", "create", "update", "delete")
	fences.Resource += "/status"
	add(fences, "", "update")
	add(corev1.Resource("pods"), "", "get", "list", "delete")
	add(corev1.Resource("pods/status"), "", "patch")
	add(storagev1.Resource("volumeattachments"), "", "list")
	add(corev1.Resource("configmaps"), c.Namespace, "list", "watch")
	if u.secrets {
		add(corev1.Resource("secrets"), c.Namespace, "get")
	}
	if c.Events != nil {
		all = append(all, kube.EventRights(metav1.NamespaceDefault)...) // about Nodes and NodeFences
		all = append(all, kube.EventRights(c.Namespace)...)             // about the configuration
	}
	if evicts {
		add(corev1.Resource("pods/eviction"), "", "create")
	}
	if u.methods[nodeplan.DetachVolumes] {
		add(storagev1.Resource("volumeattachments"), "", "delete")
	}
	if u.methods[nodeplan.DeleteNode] {
		add(corev1.Resource("nodes"), "", "delete")
	}
	if len(c.Storage) > 0 {
		add(corev1.Resource("persistentvolumeclaims"), "", "get")
		add(corev1.Resource("persistentvolumes"), "", "get")
	}
	return all
}
