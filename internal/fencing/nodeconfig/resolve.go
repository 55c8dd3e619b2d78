package nodeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// Namespace is the source of configurations: a namespace of the cluster, and the installed agents.
type Namespace struct {
	// ConfigMaps has the data of the namespace's ConfigMaps, by name. Those that are not about
	// fencing are ignored.
	ConfigMaps map[string]map[string]string
	// SecretKeys returns the keys of a Secret of the namespace. An error that matches
	// [io/fs.ErrNotExist] means that there is no such Secret. Any other error means that it is
	// unknown, which is a problem of the nodes whose configuration refers to it. Only [Target]
	// asks for values. Required.
	SecretKeys func(name string) (keys []string, err error)
	// Agent returns the metadata of an agent, with errors as for SecretKeys. Required.
	Agent func(name string) (agent.Metadata, error)
	// StrictSecrets turns the warning about a password outside of a Secret into an error.
	StrictSecrets bool
	// NotReadyFor applies to configurations that do not set it. Default: 30 s.
	NotReadyFor time.Duration
	// CommandTimeout is that of devices whose configuration does not set it.
	CommandTimeout time.Duration
	// Storage has the names of methods that cut a node off from storage.
	Storage map[string]bool
}

// Resolution has the configurations of all nodes. It is safe for concurrent use.
type Resolution struct {
	subjects                   map[string]*subject
	problems, warnings, unused []error
}

// Resolve finds and checks the configuration of each node. Pass all nodes of the cluster, even
// those that are never fenced, so that plugs shared by two nodes are found. It keeps no reference
// to its arguments and sends no requests later.
func Resolve(namespace Namespace, nodes []Node) *Resolution {
	from := &source{Namespace: namespace, texts: map[place]text{}, agents: map[string]*knownAgent{}}
	r := &Resolution{subjects: map[string]*subject{}}
	var subjects []*subject
	for _, node := range nodes {
		if r.subjects[node.Name] == nil {
			s := &subject{from: from, node: node, methods: map[string]*definition{}}
			s.read()
			subjects = append(subjects, s)
			r.subjects[node.Name] = s
		}
	}
	checkTypes(subjects)
	checkPlugs(subjects)
	for _, s := range subjects {
		s.problems, s.warnings = unique(s.problems), unique(s.warnings)
		r.problems, r.warnings = append(r.problems, s.problems...), append(r.warnings, s.warnings...)
		s.from, s.methods = nil, nil
	}
	r.problems, r.warnings = unique(r.problems), unique(r.warnings)
	r.unused = unused(namespace.ConfigMaps, subjects)
	return r
}

// Plan returns the configuration of a node. If there is an error, the node must not be fenced,
// neither by another matching configuration nor by a part of this one. The error joins all problems,
// and may match [ErrUnread] and [ErrNotConfigured].
func (r *Resolution) Plan(node string) (nodeplan.Plan, error) {
	s := r.subjects[node]
	if s == nil {
		return nodeplan.Plan{}, fmt.Errorf("config: node is not among those that were resolved (got %q)", node)
	}
	if len(s.problems) > 0 {
		return nodeplan.Plan{}, errors.Join(s.problems...)
	}
	plan := s.plan
	plan.Warnings = slices.Clone(s.warnings)
	plan.Hash = plan.PlugHash()
	return plan, nil
}

// Validate returns the errors of all nodes, each once. Objects without a node and unused templates
// are not checked.
func (r *Resolution) Validate() error { return errors.Join(r.problems...) }

// Warnings returns the warnings of all nodes, each once.
func (r *Resolution) Warnings() []error { return slices.Clone(r.warnings) }

// Unused returns an error for each object that is the configuration of no node.
func (r *Resolution) Unused() []error { return slices.Clone(r.unused) }

// source keeps what was read for one node and may be needed for another.
type source struct {
	Namespace
	texts  map[place]text
	agents map[string]*knownAgent
}

type text struct {
	entries  []entry
	problems []error
}

func (f *source) has(object string) bool {
	_, exists := f.ConfigMaps[object]
	return exists
}

// text parses a data key of an object, once.
func (f *source) text(object, key string) text {
	at := place{object: object, key: key}
	t, known := f.texts[at]
	if !known {
		t.entries, t.problems = parse(at, f.ConfigMaps[object][key])
		f.texts[at] = t
	}
	return t
}

// agent reads the metadata of an agent, once.
func (f *source) agent(name string) *knownAgent {
	if known := f.agents[name]; known != nil {
		return known
	}
	metadata, err := f.Agent(name)
	metadata.Name = name
	f.agents[name] = index(metadata)
	f.agents[name].err = err
	return f.agents[name]
}

// subject is a node whose configuration is resolved.
type subject struct {
	from   *source
	node   Node
	object string
	// general is set if the object may be that of several nodes.
	general            bool
	methods            map[string]*definition
	plan               nodeplan.Plan
	problems, warnings []error
}

func (s *subject) problem(at place, rule, value string) {
	s.problems = append(s.problems, at.problem(nil, rule, value))
}

func (s *subject) warning(at place, rule, value string) {
	s.warnings = append(s.warnings, at.problem(nil, rule, value))
}

// required returns the valid entries of a data key that an object must have.
func (s *subject) required(object, key string) ([]entry, bool) {
	if _, exists := s.from.ConfigMaps[object][key]; !exists {
		s.problem(place{object: object}, "data key "+key+" is required", "")
		return nil, false
	}
	return s.text(object, key), true
}

// text returns the valid entries of a data key. The errors of the others are the node's.
func (s *subject) text(object, key string) []entry {
	t := s.from.text(object, key)
	s.problems = append(s.problems, t.problems...)
	return t.entries
}

// builtIn is the configuration of nodes without a ConfigMap.
const builtIn = "node_name=" + seedPlaceholder + "\nisolation=" + nodeplan.MarkUnschedulable +
	"\npower_management=" + nodeplan.RestartInstance + "\nrecovery=" + nodeplan.MarkSchedulable

func (s *subject) read() {
	if s.find(); s.object != nodeplan.BuiltIn {
		s.readObject()
		return
	}
	entries, _ := parse(place{object: nodeplan.BuiltIn, key: settingsKey}, builtIn)
	s.readSettings(entries)
}

// checkTypes finds nodes of different types whose types have one object. That is only a warning,
// because any kubelet can set the type of its Node, and could otherwise prevent the fence of all
// nodes of a type.
func checkTypes(subjects []*subject) {
	types := map[string][]string{}
	for _, s := range subjects {
		if t := s.node.Type; s.general && s.node.typeObject() == s.object && !slices.Contains(types[s.object], t) {
			types[s.object] = append(types[s.object], t)
		}
	}
	for _, s := range subjects {
		if values := types[s.object]; s.general && len(values) > 1 {
			s.warning(place{object: s.object}, "object must be for one value of the label type",
				strings.Join(slices.Sorted(slices.Values(values)), ", "))
		}
	}
}

// configured is the claim of a node whose plug the configuration names.
const configured = math.MinInt64

// checkPlugs finds devices that would be switched for several nodes. It prevents the fence of those
// whose devices they may not be. The least claim wins; for a plug that is the node's because of the
// node's own claims, that is Since of the node.
func checkPlugs(subjects []*subject) {
	plugs := map[string]map[string]int64{} // the claims, by the node
	for _, s := range subjects {
		for _, d := range s.methods {
			if d.device == nil {
				continue
			}
			claims := plugs[d.device.Identity]
			if claims == nil {
				claims = map[string]int64{}
				plugs[d.device.Identity] = claims
			}
			if _, known := claims[s.node.Name]; !known {
				claims[s.node.Name] = s.node.Since
			}
			if !d.device.Claimed {
				claims[s.node.Name] = configured
			}
		}
	}
	rules, owners := map[string]string{}, map[string]string{}
	for identity, claims := range plugs {
		if len(claims) > 1 {
			rules[identity] = "plug must be of one node, and is that of " + few(slices.Sorted(maps.Keys(claims)))
			owners[identity] = owner(claims)
		}
	}
	for _, s := range subjects {
		for _, name := range slices.Sorted(maps.Keys(s.methods)) {
			if d := s.methods[name]; d.device != nil && rules[d.device.Identity] != "" &&
				owners[d.device.Identity] != s.node.Name {
				s.problem(d.at, rules[d.device.Identity], d.device.Key)
			}
		}
	}
}

// owner returns the node whose claim wins over all others, or "".
func owner(claims map[string]int64) string {
	nodes := slices.SortedFunc(maps.Keys(claims), func(a, b string) int { return cmp.Compare(claims[a], claims[b]) })
	if claims[nodes[0]] == claims[nodes[1]] {
		return ""
	}
	return nodes[0]
}

// few returns the first of many names.
func few(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// unused finds configurations without a node, because a node whose name is misspelt is fenced in
// another way.
func unused(objects map[string]map[string]string, subjects []*subject) (warnings []error) {
	used := map[string]bool{}
	for _, s := range subjects {
		used[s.object], used[nodePrefix+s.node.Name], used[s.node.typeObject()] = true, true, true
	}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if strings.HasPrefix(name, objectPrefix) && !used[name] {
			warnings = append(warnings, place{object: name}.problem(nil, "object is the configuration of no node", ""))
		}
	}
	return warnings
}

// find sets the object of the node: the most specific one that exists, whatever its content.
func (s *subject) find() {
	own, former, byType := nodePrefix+s.node.Name, objectPrefix+s.node.Name, s.node.typeObject()
	switch hasFormer := s.from.has(former) && s.owns(former); {
	case s.from.has(own):
		s.object = own
		if hasFormer {
			s.problem(place{object: own}, "node must have one object of its own", former)
		}
	case hasFormer:
		s.object = former
	case s.from.has(byType):
		s.object, s.general = byType, true
	default:
		s.object, s.general = nodeplan.BuiltIn, true
	}
}

// owns reports whether an object with the former name is that of the node, even if its content is
// wrong, because a more general object would apply otherwise. If the name can also be that of another
// node's or a type's object, node_name decides.
func (s *subject) owns(name string) bool {
	if !strings.HasPrefix(name, nodePrefix) && !strings.HasPrefix(name, typePrefix) {
		return true
	}
	e, given := byKey(s.from.text(name, settingsKey).entries)["node_name"]
	return !given || e.value == s.node.Name // without a name, its node would be unknown
}
