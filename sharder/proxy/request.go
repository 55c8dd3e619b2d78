package proxy

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is what a request asks for, as the API server reads its path.
type request struct {
	// verb is that of an RBAC rule: get, list, watch, create, update, patch, delete, deletecollection;
	// connect for a subresource that opens a connection. It is empty if the path names no resource, and
	// ambiguous if something between here and the API server could read the path differently, and unknown for
	// a method that an API server does not have.
	verb                         string
	resource                     schema.GroupVersionResource
	namespace, name, subresource string
}

// connecting are the subresources that open a connection to something behind the API server.
var connecting = []string{"exec", "attach", "portforward", "proxy", "log"}

// parse reads the path /api/<version>/… or /apis/<group>/<version>/…, then
// [namespaces/<namespace>/]<resource>[/<name>[/<subresource>]].
func parse(r *http.Request) request {
	var q request
	path := r.URL.Path
	if strings.Contains(path, "//") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
		return request{verb: "ambiguous"}
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		q.resource.Version, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		q.resource.Group, q.resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return q
	}
	legacyWatch := parts[0] == "watch"
	if legacyWatch {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		q.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) == 0 {
		return request{}
	}
	q.resource.Resource = parts[0]
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = strings.Join(parts[2:], "/")
	}
	q.verb = verbOf(r, q, legacyWatch)
	return q
}

func verbOf(r *http.Request, q request, legacyWatch bool) string {
	if subresource, _, _ := strings.Cut(q.subresource, "/"); slices.Contains(connecting, subresource) {
		return "connect"
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		var watch bool // as an API server reads it
		given := r.URL.Query()["watch"]
		_ = runtime.Convert_Slice_string_To_bool(&given, &watch, nil)
		switch {
		case legacyWatch || q.name == "" && watch:
			return "watch"
		case q.name == "":
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if q.name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return "unknown"
}
