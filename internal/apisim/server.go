package apisim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a kind of object that the server knows.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
	// CreateOnUpdate lets a PUT create a missing object, as for Leases.
	CreateOnUpdate bool
	// RequireVersion refuses a PUT without resourceVersion, as for Leases.
	RequireVersion bool
	// Status is a subresource: requests for the object keep its status, those for <name>/status
	// keep all but the status.
	Status bool
	// StatusAtCreation keeps the status that an object is created with, as for Nodes.
	StatusAtCreation bool
	// Graceful objects end before they are gone, as Pods.
	Graceful bool
	// Fields select besides metadata.name and metadata.namespace, such as spec.nodeName.
	Fields []string
}

// builtin are the resources that every server knows.
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
		Namespaced: true,
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
	encoded  encoded
}

// encoded is the object that was sent last. Most changes are sent to several watches.
type encoded struct {
	object   *object
	metadata bool
	raw      []byte
}

// encode returns an object as watches send it. The caller holds mu.
func (s *Server) encode(o *object, metadata bool) []byte {
	if s.encoded.object != o || s.encoded.metadata != metadata {
		s.encoded = encoded{o, metadata, marshal(shape(o, metadata))}
	}
	return s.encoded.raw
}

// birth is the version of an empty server. Real ones have had a life before the first client comes,
// and forgotten it.
const birth = 1000

// NewServer returns an empty server. It knows configmaps, pods, events, namespaces, nodes,
// services, endpoints, endpointslices, leases, clusterroles, and the resources given.
func NewServer(resources ...Resource) *Server {
	return &Server{
		start:     time.Now(),
		resources: slices.Concat(builtin, resources),
		data:      database{version: birth, compacted: birth, objects: map[key]*object{}},
		watches:   map[*watch]struct{}{},
	}
}

// Change is what a client has done to an object.
type Change struct {
	Client        string
	Before, After *unstructured.Unstructured // nil: the object does not exist; not to be changed
}

// Observe has f called with every change, when it is made and in order. f must not use the server,
// nor any of its clients.
func (s *Server) Observe(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = f
}

// Compact forgets the history, as a real API server has when it starts after a compaction of etcd
// (which happens every five minutes): watches and pages of the past are answered with 410.
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

func (t target) kind() schema.GroupKind { return schema.GroupKind{Group: t.Group, Kind: t.Kind} }

func (t target) key() key { return key{t.group(), t.namespace, t.name} }

// Restart breaks all watches, and lets those that come then and ask for any version begin so many
// changes ago, until it is called again: a server that has just started knows the past before it
// knows the present.
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

// serve answers a request when it is its turn, and notes it.
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
		return respond(r, http.StatusCreated, c.identity.review())
	}
	t, ok := s.target(r.URL.Path)
	if !ok {
		return respond(r, http.StatusNotFound,
			apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "",
				"the server could not find the requested resource", 0, true).Status())
	}
	code, answer, err := http.StatusOK, any(nil), status(nil)
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && query.Get("watch") != "" && query.Get("watch") != "false" &&
		query.Get("watch") != "0":
		var w *watch
		if w, err = s.watch(c, t, r); err == nil {
			return response(r, code, w.body, -1)
		}
	case r.Method == http.MethodGet && t.name == "":
		answer, err = s.list(t, query)
	case r.Method == http.MethodGet:
		answer, err = s.get(t)
	case r.Method == http.MethodPost && t.name == "":
		code = http.StatusCreated
		answer, err = s.create(t, body, dryRun(query))
	case r.Method == http.MethodPut && t.name != "":
		var created bool
		if answer, created, err = s.update(t, body, dryRun(query)); created {
			code = http.StatusCreated
		}
	case r.Method == http.MethodPatch && t.name != "":
		answer, err = s.patch(t, r.Header.Get("Content-Type"), body, dryRun(query))
	case r.Method == http.MethodDelete && t.name != "":
		answer, err = s.delete(t, body, dryRun(query))
	case r.Method == http.MethodDelete:
		answer, err = s.deleteCollection(t, query, body)
	default:
		err = apierrors.NewMethodNotSupported(t.group(), r.Method)
	}
	if err != nil {
		return respond(r, int(err.Status().Code), err.Status())
	}
	switch a := answer.(type) {
	case *object:
		answer = shape(a, wantsMetadata(r))
	case list:
		answer = a.shape(r)
	}
	return respond(r, code, answer)
}

// shape is how the client wants to have an object: whole, or only its metadata.
func shape(o *object, metadata bool) map[string]any {
	if !metadata {
		return o.Object
	}
	return map[string]any{
		"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata",
		"metadata": o.Object["metadata"],
	}
}

func (l list) shape(r *http.Request) map[string]any {
	items := []any{}
	for _, o := range l.items {
		item := maps.Clone(shape(o, wantsMetadata(r)))
		if !wantsMetadata(r) { // the items of a list do not repeat what it is a list of
			delete(item, "apiVersion")
			delete(item, "kind")
		}
		items = append(items, item)
	}
	answer := map[string]any{
		"apiVersion": l.GroupVersion().String(), "kind": l.Kind + "List", "metadata": l.meta,
		"items": items,
	}
	if wantsMetadata(r) {
		answer["apiVersion"], answer["kind"] = metav1.SchemeGroupVersion.String(), "PartialObjectMetadataList"
	}
	return answer
}

func wantsMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func respond(r *http.Request, code int, answer any) *http.Response {
	if s, ok := answer.(metav1.Status); ok {
		answer = onTheWire(s)
	}
	body := marshal(answer)
	return response(r, code, io.NopCloser(bytes.NewReader(body)), int64(len(body)))
}

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("apisim: encode %T: %v", v, err))
	}
	return raw
}
