package apisim

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind of object that the server serves.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// CreateOnUpdate lets a PUT create a missing object, as for Leases.
	CreateOnUpdate bool
	// RequireVersion refuses a PUT without resourceVersion, as for Leases.
	RequireVersion bool
	// Status makes the status a subresource, so that requests for the object keep its status and
	// those for <name>/status keep all but the status.
	Status bool
	// StatusAtCreation keeps the status that an object is created with, as for Nodes.
	StatusAtCreation bool
	// Graceful objects end before they are gone, as Pods do.
	Graceful bool
	// Uncached resources have no watch cache, as with Events, so that their watches get no bookmarks
	// except for the end of the initial events.
	Uncached bool
	// Fields for selectors besides metadata.name and metadata.namespace, such as spec.nodeName.
	Fields []string
}

// builtin are the resources that every server has.
var builtin = []Resource{
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
		Namespaced: true,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}, Kind: "Endpoints",
		Namespaced: true, CreateOnUpdate: true,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "events"}, Kind: "Event",
		Namespaced: true, Uncached: true,
	},
	{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace"},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Kind: "Node", Status: true,
		StatusAtCreation: true,
	},
	{
		// A real server gives new Pods a status of its own.
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:                 "Pod", Namespaced: true, Status: true, StatusAtCreation: true, Graceful: true,
		Fields: []string{"spec.nodeName"},
	},
	{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"},
		Kind:                 "Service", Namespaced: true, CreateOnUpdate: true, Status: true,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{
			Group: "coordination.k8s.io", Version: "v1",
			Resource: "leases",
		},
		Kind: "Lease", Namespaced: true, CreateOnUpdate: true, RequireVersion: true,
	},
	{
		GroupVersionResource: schema.GroupVersionResource{
			Group: "discovery.k8s.io", Version: "v1",
			Resource: "endpointslices",
		},
		Kind: "EndpointSlice", Namespaced: true,
	},
	{GroupVersionResource: schema.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Version: "v1",
		Resource: "clusterroles",
	}, Kind: "ClusterRole", CreateOnUpdate: true},
}

// Server is the state that its clients share.
type Server struct {
	resources []Resource

	start time.Time
	order *order
	lot   uint32 // is in all UIDs

	mu       sync.Mutex // never held while waiting
	data     database
	behind   int64 // how many changes ago a watch begins that asks for any version
	watches  map[*watch]struct{}
	trace    []Served
	untraced bool
	observe  func(Change) // may be nil
	latest   event
}

// birth is the version of an empty server. Real ones have a history before the first client comes,
// and have forgotten it.
const birth = 1000

// NewServer returns an empty server for configmaps, pods, events, namespaces, nodes, services,
// endpoints, endpointslices, leases, clusterroles, and the given resources.
func NewServer(resources ...Resource) *Server {
	return &Server{
		start:     time.Now(),
		resources: slices.Concat(builtin, resources),
		data:      database{version: birth, compacted: birth, objects: map[key]*Object{}},
		watches:   map[*watch]struct{}{},
	}
}

// Change is what a client has done to an object.
type Change struct {
	Client        string
	Before, After *Object // nil if the object does not exist; must not be changed
}

// Observe makes the server call f with every change, when it is made and in order. f must use
// neither the server nor any of its clients.
func (s *Server) Observe(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// Compact forgets the history, as a real API server has when it starts after a compaction of etcd
// (which happens every five minutes). Watches and pages of the past are then answered with 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.compact(s.data.version)
}

// target is what a request is about.
type target struct {
	Resource
	namespace, name string
	status          bool // it is about the status, a subresource
}

// target parses a path: /api/v1/… or /apis/<group>/<version>/…, then
// [namespaces/<namespace>/]<resource>[/<name>[/status]].
func (s *Server) target(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group, version string
	switch {
	case len(parts) > 2 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return target{}, false
	}
	var t target
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" {
		t.namespace, parts = parts[1], parts[2:]
	}
	if t.status = len(parts) == 3 && parts[2] == "status"; t.status {
		parts = parts[:2]
	}
	if len(parts) > 2 {
		return target{}, false // another subresource
	}
	if len(parts) == 2 {
		t.name = parts[1]
	}
	for _, r := range s.resources {
		if r.Group == group && r.Version == version && r.Resource == parts[0] {
			t.Resource = r
			return t, (r.Namespaced || t.namespace == "") && (r.Status || !t.status)
		}
	}
	return target{}, false
}

func (t target) group() schema.GroupResource { return t.GroupResource() }

func (t target) gvk() schema.GroupVersionKind { return t.GroupVersion().WithKind(t.Kind) }

func (t target) kind() schema.GroupKind { return schema.GroupKind{Group: t.Group, Kind: t.Kind} }

func (t target) key() key { return key{t.group(), t.namespace, t.name} }

// Restart breaks all watches. Until it is called again, later watches for any version begin behind
// changes ago, because a server that has just started serves the past before the present.
func (s *Server) Restart(behind int64) {
	s.mu.Lock()
	s.behind = behind
	s.mu.Unlock()
	s.hangUp(func(*watch) bool { return true })
}

// Restarted reports whether watches still begin in the past.
func (s *Server) Restarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind > 0
}

// serve answers a request when it is its turn, and records it.
func (s *Server) serve(c *Client, r *http.Request, body []byte) *http.Response {
	request := served(c, r)
	done := s.order.turn(request)
	defer done()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.data.version
	answer := s.handle(c, r, body)
	if s.observe != nil {
		changes, _ := s.data.since(before)
		for _, change := range changes {
			s.observe(Change{c.identity.user, change.before, change.after})
		}
	}
	request.At, request.Code = time.Since(s.start), answer.StatusCode
	if !s.untraced {
		s.trace = append(s.trace, request)
	}
	return answer
}

// handle answers a request. A watch is answered with its stream as the body. The caller holds mu.
func (s *Server) handle(c *Client, r *http.Request, body []byte) *http.Response {
	if r.Method == http.MethodPost && r.URL.Path == reviewPath {
		review := c.identity.review()
		f := formOf(c, r, review.GroupVersionKind())
		return respond(r, http.StatusCreated, f.encoding, f.message(review))
	}
	t, ok := s.target(r.URL.Path)
	f := formOf(c, r, t.gvk())
	if !ok {
		return refuse(r, f.encoding, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method,
			schema.GroupResource{}, "", "the server could not find the requested resource", 0, true))
	}
	if query := r.URL.Query(); r.Method == http.MethodGet && watches(query) {
		w, err := s.watch(r.Context(), c, t, f, query)
		if err != nil {
			return refuse(r, f.encoding, err)
		}
		return response(r, http.StatusOK, f.contentType(), w.body, -1)
	}
	code, answer, err := s.do(t, r, payloadOf(r, body))
	if err != nil {
		return refuse(r, f.encoding, err)
	}
	switch a := answer.(type) {
	case *Object:
		return respond(r, code, f.encoding, f.object(a))
	case list:
		return respond(r, code, f.encoding, f.list(a))
	default:
		return respond(r, code, f.encoding, f.message(a.(message)))
	}
}

// do carries out a request that is no watch. The answer is an object, a list or a message.
func (s *Server) do(t target, r *http.Request, sent payload) (code int, answer any, err status) {
	query := r.URL.Query()
	code = http.StatusOK
	switch {
	case r.Method == http.MethodGet && t.name == "":
		answer, err = s.list(t, query)
	case r.Method == http.MethodGet:
		answer, err = s.get(t)
	case r.Method == http.MethodPost && t.name == "":
		code = http.StatusCreated
		answer, err = s.create(t, sent, dryRun(query))
	case r.Method == http.MethodPut && t.name != "":
		var created bool
		if answer, created, err = s.update(t, sent, dryRun(query)); created {
			code = http.StatusCreated
		}
	case r.Method == http.MethodPatch && t.name != "":
		answer, err = s.patch(t, r.Header.Get("Content-Type"), sent.raw, dryRun(query))
	case r.Method == http.MethodDelete:
		var options metav1.DeleteOptions
		switch options, err = deleteOptions(sent, query); {
		case err != nil:
		case t.name == "":
			answer, err = s.deleteCollection(t, query, options)
		default:
			answer, err = s.delete(t, options)
		}
	default:
		err = apierrors.NewMethodNotSupported(t.group(), r.Method)
	}
	return code, answer, err
}

func respond(r *http.Request, code int, e encoding, body []byte) *http.Response {
	return response(r, code, e.contentType(), io.NopCloser(bytes.NewReader(body)), int64(len(body)))
}

func refuse(r *http.Request, e encoding, err status) *http.Response {
	return respond(r, int(err.Status().Code), e, e.message(onTheWire(err.Status())))
}
