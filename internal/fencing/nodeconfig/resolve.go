package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Namespace is the source of configurations: a namespace of the cluster, and the installed agents.
type Namespace struct {
	// ConfigMaps has the data of the namespace's ConfigMaps, by name. Those that are not about
	// fencing are ignored.
	ConfigMaps map[string]map[string]string
	// SecretKeys returns the keys of a Secret of the namespace. An error that matches
	// [fs.ErrNotExist] means that there is no such Secret. Any other error means that it is
	// unknown, which is a problem of the nodes whose configuration refers to it. If nil, there are
	// no Secrets. Only [Device.Target] asks for values.
	SecretKeys func(name string) (keys []string, err error)
	// Agent returns the metadata of an agent, with errors as for SecretKeys. If nil, there are no
	// agents.
	Agent func(name string) (agent.Metadata, error)
	// StrictSecrets turns the warning about a password outside of a Secret into an error.
	StrictSecrets bool
	// NotReadyFor applies to configurations that do not set it. Default: 30 s.
	NotReadyFor time.Duration
}

// Resolution has the configurations of all nodes. It is safe for concurrent use.
type Resolution struct {
	subjects map[string]*subject
	all      review
}

// ErrUnknownNode is returned for a node that was not passed to [Resolve].
var ErrUnknownNode = errors.New("config: node is not among those that were resolved")

// Resolve finds and checks the configuration of each node. Pass all nodes of the cluster, even
// those that are never fenced, so that plugs shared by two nodes are found. It keeps no reference
// to its arguments and sends no requests later.
func Resolve(namespace Namespace, nodes []Node) *Resolution {
	r := &resolver{Namespace: namespace, texts: map[place]parsed{}, agents: map[string]askedAgent{}}
	resolution := &Resolution{subjects: map[string]*subject{}}
	var subjects []*subject
	for _, node := range nodes {
		if resolution.subjects[node.Name] == nil {
			s := r.resolve(node)
			subjects = append(subjects, s)
			resolution.subjects[node.Name] = s
		}
	}
	checkTypes(subjects)
	checkPlugs(subjects)
	for _, s := range subjects {
		resolution.all.take(s.review)
		s.resolver = nil
	}
	resolution.all.take(unused(namespace.ConfigMaps, subjects))
	return resolution
}

// Plan returns the configuration of a node. If there is an error, the node must not be fenced,
// neither by another matching configuration nor by a part of this one. The error joins all problems,
// and may match [ErrUnread] and [ErrNotConfigured]. For a node that was not resolved, it matches
// [ErrUnknownNode].
func (r *Resolution) Plan(node string) (Plan, error) {
	s := r.subjects[node]
	if s == nil {
		return Plan{}, fmt.Errorf("%w (got %q)", ErrUnknownNode, node)
	}
	if err := s.err(); err != nil {
		return Plan{}, err
	}
	plan := s.plan
	plan.Warnings = slices.Clone(s.warnings)
	plan.Hash = plan.hash()
	return plan, nil
}

// Object returns the name of the ConfigMap of a node, even if it is invalid, or [BuiltIn] without
// one. It returns "" for a node that was not resolved.
func (r *Resolution) Object(node string) string {
	if s := r.subjects[node]; s != nil {
		return s.object
	}
	return ""
}

// Validate returns the errors of all nodes, each once. Objects without a node and unused templates
// are not checked.
func (r *Resolution) Validate() error { return r.all.err() }

// Warnings returns the warnings of all nodes, each once, and about objects that no node uses.
func (r *Resolution) Warnings() []error { return slices.Clone(r.all.warnings) }

// resolver keeps what was read for one node and may be needed for another.
type resolver struct {
	Namespace
	texts  map[place]parsed
	agents map[string]askedAgent
}

// askedAgent is an agent whose metadata was read.
type askedAgent struct {
	known *knownAgent
	err   error
}

type parsed struct {
	entries []Entry
	found   review
}

// text parses a data key of an object, once.
func (r *resolver) text(object, key string) parsed {
	at := place{object: object, key: key}
	p, known := r.texts[at]
	if !known {
		p.entries = p.found.parse(at, r.ConfigMaps[object][key])
		r.texts[at] = p
	}
	return p
}

// agent reads the metadata of an agent, once.
func (r *resolver) agent(name string) (*knownAgent, error) {
	if asked, known := r.agents[name]; known {
		return asked.known, asked.err
	}
	asked := askedAgent{err: fs.ErrNotExist}
	if r.Agent != nil {
		var metadata agent.Metadata
		if metadata, asked.err = r.Agent(name); asked.err == nil {
			metadata.Name = name
			asked.known = index(metadata)
		}
	}
	r.agents[name] = asked
	return asked.known, asked.err
}

// hasSecret reports whether a Secret has a key. An error that matches fs.ErrNotExist means that
// there is no such Secret.
func (r *resolver) hasSecret(ref SecretRef) (bool, error) {
	if r.SecretKeys == nil {
		return false, fs.ErrNotExist
	}
	keys, err := r.SecretKeys(ref.Name)
	return slices.Contains(keys, ref.Key), err
}

// subject is a node whose configuration is resolved.
type subject struct {
	*resolver
	review
	node   Node
	object string
	// general is set if the object may be that of several nodes.
	general bool
	methods map[string]*definition
	plan    Plan
}

func (r *resolver) resolve(node Node) *subject {
	s := &subject{resolver: r, node: node, methods: map[string]*definition{}}
	s.find()
	if s.object == BuiltIn {
		s.readSettings(place{object: BuiltIn, key: settingsKey}, builtIn())
	} else {
		s.readObject()
	}
	s.plan.Node, s.plan.Object = node.Name, s.object
	return s
}

// builtIn is the configuration of nodes without a ConfigMap.
func builtIn() []Entry {
	var found review
	return found.parse(place{}, strings.Join([]string{
		"node_name=" + seedPlaceholder, "isolation=" + MarkUnschedulable, "power_management=" + RestartInstance,
		"recovery=" + MarkSchedulable,
	}, "\n"))
}

// checkTypes finds nodes of different types whose types have one object. That is only a warning,
// because any kubelet can set the type of its Node, and could otherwise prevent the fence of all
// nodes of a type.
func checkTypes(subjects []*subject) {
	types := map[string]map[string]bool{}
	for _, s := range subjects {
		if name := typeObject(s.node.Type); name == s.object && s.general {
			if types[name] == nil {
				types[name] = map[string]bool{}
			}
			types[name][s.node.Type] = true
		}
	}
	for _, s := range subjects {
		if values := types[s.object]; s.general && len(values) > 1 {
			s.warning(place{object: s.object}, "object must be for one value of the label type",
				strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
	}
}

// checkPlugs finds devices that would be switched for several nodes. It prevents the fence of those
// whose devices they may not be.
func checkPlugs(subjects []*subject) {
	users := map[string]map[string]claim{}
	for _, s := range subjects {
		for _, d := range s.methods {
			if d.device == nil {
				continue
			}
			if users[d.device.identity] == nil {
				users[d.device.identity] = map[string]claim{}
			}
			c := claim{d.device.claimed, s.node.Since}
			if before, known := users[d.device.identity][s.node.Name]; known && !c.before(before) {
				c = before
			}
			users[d.device.identity][s.node.Name] = c
		}
	}
	rules, owners := map[string]string{}, map[string]string{}
	for identity, claims := range users {
		if len(claims) > 1 {
			rules[identity] = "plug must be of one node, and is that of " + few(slices.Sorted(maps.Keys(claims)))
			owners[identity] = owner(claims)
		}
	}
	for _, s := range subjects {
		for _, name := range slices.Sorted(maps.Keys(s.methods)) {
			if d := s.methods[name]; d.device != nil && rules[d.device.identity] != "" &&
				owners[d.device.identity] != s.node.Name {
				s.problem(d.at, rules[d.device.identity], d.device.Key)
			}
		}
	}
}

// claim is the reason why a plug is a node's.
type claim struct {
	own   bool  // from the node itself, not from the configuration
	since int64 // Since of the node
}

// before reports whether a claim wins over another.
func (c claim) before(other claim) bool {
	if c.own != other.own {
		return other.own
	}
	return c.own && c.since < other.since
}

// owner returns the node whose claim wins over all others, or "".
func owner(claims map[string]claim) string {
	for node, c := range claims {
		first := true
		for other, theirs := range claims {
			first = first && (other == node || c.before(theirs))
		}
		if first {
			return node
		}
	}
	return ""
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
func unused(objects map[string]map[string]string, subjects []*subject) review {
	used := map[string]bool{}
	for _, s := range subjects {
		used[s.object], used[nodeObject(s.node.Name)], used[typeObject(s.node.Type)] = true, true, true
	}
	var found review
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if strings.HasPrefix(name, objectPrefix) && !used[name] {
			found.warning(place{object: name}, "object is the configuration of no node", "")
		}
	}
	return found
}
