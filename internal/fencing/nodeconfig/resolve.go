package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Namespace is what configurations are made of: what one namespace of the cluster holds, and the
// agents that are installed.
type Namespace struct {
	// ConfigMaps are the data of the namespace's ConfigMaps, by name. Others than those of fencing
	// are not looked at.
	ConfigMaps map[string]map[string]string
	// SecretKeys returns the keys of a Secret of the namespace. An error that is [fs.ErrNotExist]
	// says that there is no such Secret; any other that it is not known, which is a problem of the
	// nodes whose configuration refers to it. Nil: there are none. Values are asked for by
	// [Device.Target] only.
	SecretKeys func(name string) (keys []string, err error)
	// Agent returns the metadata of an agent. Its errors are as those of SecretKeys. Nil: there are
	// none.
	Agent func(name string) (agent.Metadata, error)
	// StrictSecrets makes an error of a password that is not in a Secret.
	StrictSecrets bool
}

// Resolution of the configurations of all nodes. It may be used by several goroutines at once.
type Resolution struct {
	subjects map[string]*subject
	all      review
}

// ErrUnknownNode is returned for a node that [Resolve] was not told of.
var ErrUnknownNode = errors.New("config: node is not among those that were resolved")

// Resolve finds and checks the configuration of each of the nodes, which have different names. It
// needs to be told of all nodes of the cluster, also of those that are never fenced: that two nodes
// share a plug is found in no other way. It keeps nothing of what it is given, and sends no
// requests later.
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

// Plan returns how a node is fenced. If there is an error, each of whose parts is a [*Problem], it
// must not be: neither by another configuration that fits nor by a part of this one. A node that
// was not among those resolved is [ErrUnknownNode].
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

// Object returns the name of the ConfigMap that says how a node is fenced, whatever is wrong with
// it; [BuiltIn] if there is none, and nothing for a node that was not among those resolved.
func (r *Resolution) Object(node string) string {
	if s := r.subjects[node]; s != nil {
		return s.object
	}
	return ""
}

// Validate returns the errors of all nodes, each once: every part is a [*Problem]. Objects of no
// node and templates that are not used are not looked at.
func (r *Resolution) Validate() error { return r.all.err() }

// Warnings returns those of all nodes, each once, and objects that no node uses.
func (r *Resolution) Warnings() []*Problem { return slices.Clone(r.all.warnings) }

// resolver keeps what was read for one node and may be needed for another.
type resolver struct {
	Namespace
	texts  map[place]parsed
	agents map[string]askedAgent
}

// askedAgent is an agent whose metadata was asked for.
type askedAgent struct {
	known *knownAgent
	err   error
}

type parsed struct {
	entries []Entry
	found   review
}

// text parses one of the data keys of an object, once.
func (r *resolver) text(object, key string) parsed {
	at := place{object: object, key: key}
	p, known := r.texts[at]
	if !known {
		p.entries = p.found.parse(at, r.ConfigMaps[object][key])
		r.texts[at] = p
	}
	return p
}

// agent asks for the metadata of an agent, once.
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

// hasSecret says whether a Secret has a key. An error that is fs.ErrNotExist says that there is no
// such Secret.
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
	// general says that the object may be that of several nodes.
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

// builtIn is the configuration of nodes that have no ConfigMap.
func builtIn() []Entry {
	var found review
	return found.parse(place{}, strings.Join([]string{
		"node_name=" + seedPlaceholder, "isolation=" + MarkUnschedulable, "power_management=" + RestartInstance,
		"recovery=" + MarkSchedulable,
	}, "\n"))
}

// checkTypes finds nodes of different types that get one object for their types. That is no error:
// every kubelet may give its Node a type, and could keep all others of that type from being fenced.
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
			s.warning(TypeCollision, place{object: s.object}, "object must be for one value of the label type",
				strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
	}
}

// checkPlugs finds devices that would be switched for more than one node, and keeps those from
// being fenced whose they may not be.
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
				s.problem(SharedPlug, d.at, rules[d.device.identity], d.device.Key)
			}
		}
	}
}

// claim is why a plug is that of a node.
type claim struct {
	own   bool  // because the node says so of itself, and not who writes the configuration
	since int64 // when it came to say so
}

// before says that a claim counts, and the other one does not.
func (c claim) before(other claim) bool {
	if c.own != other.own {
		return other.own
	}
	return c.own && c.since < other.since
}

// owner is the node whose claim comes before those of all others; empty: there is none.
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

// few names the first of many.
func few(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// unused finds configurations of no node: the name may be misspelt, and its node fenced in another
// way.
func unused(objects map[string]map[string]string, subjects []*subject) review {
	used := map[string]bool{}
	for _, s := range subjects {
		used[s.object], used[nodeObject(s.node.Name)], used[typeObject(s.node.Type)] = true, true, true
	}
	var found review
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if strings.HasPrefix(name, objectPrefix) && !used[name] {
			found.warning(UnusedObject, place{object: name}, "object is the configuration of no node", "")
		}
	}
	return found
}
