package apisim

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxBody is how much of a request is read, because a real API server takes 3 MiB.
const maxBody = 3 << 20

// Handler serves over HTTP, for programs in separate processes. Because a kubeconfig gives no token to
// a server without TLS, the first segments of a path may name the client, as in /as/<user>/api/v1, or
// /as/<user>/of/<Pod>/<UID>/api/v1 for a process in a Pod. Every client may do everything. Besides the
// API, it serves /version, /readyz, and discovery without its aggregated form.
//
// Nothing is traced, because such a server may run for long.
func (s *Server) Handler() http.Handler {
	s.mu.Lock()
	s.untraced = true
	s.mu.Unlock()
	h := &handler{server: s, clients: map[identity]*Client{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		send(w, respondJSON(r, map[string]any{"major": "1", "minor": "37", "gitVersion": "v1.37.0-in-memory"}))
	})
	for path, answer := range s.discovery() {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			send(w, respondJSON(r, answer))
		})
	}
	mux.Handle("/", h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), identityKey{}, identify(r)))
		mux.ServeHTTP(w, r)
	})
}

// identityKey is the key of the client's identity in the context of a request.
type identityKey struct{}

type handler struct {
	server *Server

	mu      sync.Mutex
	clients map[identity]*Client
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	resp, err := h.client(r).RoundTrip(r)
	if err != nil { // the client has gone, or should believe that the server has
		panic(http.ErrAbortHandler)
	}
	send(w, resp)
}

func (h *handler) client(r *http.Request) *Client {
	who, _ := r.Context().Value(identityKey{}).(identity)
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[who]
	if c == nil {
		c = h.server.client(who)
		h.clients[who] = c
	}
	return c
}

func respondJSON(r *http.Request, answer any) *http.Response {
	return respond(r, http.StatusOK, inJSON{}, marshal(answer))
}

// send flushes each event at once, because a watch has no end.
func send(w http.ResponseWriter, resp *http.Response) {
	defer func() { _ = resp.Body.Close() }()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for buffer := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(buffer)
		if _, writeErr := w.Write(buffer[:n]); writeErr != nil {
			return
		}
		switch {
		case err == nil:
			_ = flush()
		case errors.Is(err, io.EOF):
			return
		default:
			panic(http.ErrAbortHandler) // or the client would take it for the end
		}
	}
}

// discovery has the answers of the discovery API, by path.
func (s *Server) discovery() map[string]any {
	answers := map[string]any{}
	lists := map[metav1.GroupVersion][]any{}
	groups := map[string][]string{}
	for _, r := range s.resources {
		gv := metav1.GroupVersion{Group: r.Group, Version: r.Version}
		if !slices.Contains(groups[r.Group], r.Version) {
			groups[r.Group] = append(groups[r.Group], r.Version)
		}
		verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
		resource := map[string]any{
			"name": r.Resource, "singularName": strings.ToLower(r.Kind), "kind": r.Kind, "namespaced": r.Namespaced,
			"verbs": verbs,
		}
		if short := shortNames[r.Resource]; short != "" {
			resource["shortNames"] = []string{short}
		}
		lists[gv] = append(lists[gv], resource)
		if r.Status {
			lists[gv] = append(lists[gv], map[string]any{
				"name": r.Resource + "/status", "singularName": "", "kind": r.Kind, "namespaced": r.Namespaced,
				"verbs": []string{"get", "patch", "update"},
			})
		}
	}
	reviews := metav1.GroupVersion{Group: authenticationv1.GroupName, Version: "v1"}
	groups[reviews.Group] = []string{reviews.Version}
	lists[reviews] = []any{map[string]any{
		"name": "selfsubjectreviews", "singularName": "selfsubjectreview", "kind": "SelfSubjectReview",
		"namespaced": false, "verbs": []string{"create"},
	}}
	var named []any
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		if group == "" {
			continue
		}
		var versions []any
		for _, version := range groups[group] {
			versions = append(versions, map[string]any{"groupVersion": group + "/" + version, "version": version})
		}
		named = append(named, map[string]any{"name": group, "versions": versions, "preferredVersion": versions[0]})
	}
	answers["/api"] = map[string]any{"kind": "APIVersions", "versions": groups[""]}
	answers["/apis"] = map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
	for gv, list := range lists {
		path := "/apis/" + gv.Group + "/" + gv.Version
		name := gv.Group + "/" + gv.Version
		if gv.Group == "" {
			path, name = "/api/"+gv.Version, gv.Version
		}
		answers[path] = map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name,
			"resources": list,
		}
	}
	return answers
}

// shortNames are what people type.
var shortNames = map[string]string{
	"configmaps": "cm", "endpoints": "ep", "events": "ev", "namespaces": "ns", "nodes": "no", "pods": "po",
	"services": "svc",
}
