package leasehold

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// class is how a guard treats a request.
type class int

const (
	harmless class = iota // passes without the lease
	guarded               // needs the term
	bounded               // needs the term, and the API server heeds the query parameter timeout
)

// classify returns the class of a request, and its target if it is bounded, from its method and path.
// When in doubt, it is guarded, and its target is empty.
//
// API servers look only at the decoded URL.Path, and so does classify. Encoded slashes separate.
// The API may be below any path that config.Host names.
func classify(r *http.Request) (class, target) {
	if r.URL == nil || r.URL.Opaque != "" || ambiguous(r.URL.Path) || r.Header.Get("Upgrade") != "" {
		return guarded, target{}
	}
	var first target
	known, other := false, false
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i := range parts {
		t, ok := parse(parts[i:])
		switch {
		case !ok:
		case t.connects: // whatever else the path may mean
			return guarded, target{}
		case !known:
			first, known = t, true
		default:
			other = true
		}
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions:
		return harmless, target{}
	}
	switch {
	case !known:
		return guarded, target{}
	case first.changesNothing(r.Method), isDryRun(r) && !first.ignoresDryRun():
		return harmless, target{}
	case other: // below a path that looks like the API
		return bounded, target{}
	}
	return bounded, first
}

// ambiguous reports whether a proxy that cleans paths or decodes twice could read a path
// differently. No name of an object has a percent sign.
func ambiguous(path string) bool {
	return strings.Contains(path, "//") || strings.Contains(path, "%") ||
		strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../")
}

// target is the meaning of a path.
type target struct {
	group, resource, name, subresource string

	connects bool // to something behind the API server, where any method may change anything
	legacy   bool // /watch/ before the resource
}

// connecting are the subresources that connect, in any group, because the portforward of a virtual
// machine acts like a Pod's.
var connecting = []string{"exec", "attach", "portforward", "proxy"}

// parse reads a path of the API: /api/<version>/… or /apis/<group>/<version>/…, then
// [namespaces/<namespace>/]<resource>, [/<name>[/<subresource>]], as the API server does.
func parse(parts []string) (t target, ok bool) {
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		t.group, parts = parts[1], parts[3:]
	default:
		return t, false
	}
	switch strings.ToLower(parts[0]) {
	case "proxy": // the old form, before the resource
		t.connects = true
		return t, true
	case "watch":
		t.legacy = true
		return t, true
	}
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		parts = parts[2:]
	}
	t.resource = parts[0]
	if len(parts) > 1 {
		t.name = parts[1]
	}
	if len(parts) > 2 {
		t.subresource = parts[2]
		t.connects = slices.Contains(connecting, strings.ToLower(parts[2]))
	}
	return t, true
}

// changesNothing reports whether a request with this method only asks a question or reports an
// Event.
func (t target) changesNothing(method string) bool {
	if t.subresource != "" {
		return false
	}
	switch t.group {
	case "", "events.k8s.io":
		return t.resource == "events" && method != http.MethodDelete
	case "authorization.k8s.io":
		switch t.resource {
		case "subjectaccessreviews", "selfsubjectaccessreviews", "localsubjectaccessreviews", "selfsubjectrulesreviews":
			return method == http.MethodPost && t.name == ""
		}
	case "authentication.k8s.io":
		switch t.resource {
		case "tokenreviews", "selfsubjectreviews":
			return method == http.MethodPost && t.name == ""
		}
	}
	return false
}

// ignoresDryRun reports whether dryRun has no effect: a token is issued nevertheless.
func (t target) ignoresDryRun() bool { return t.legacy || t.subresource == "token" }

// isDryRun reports whether the query asks for a dry run. The API server reads the options of a
// DELETE with a body from the body only.
func isDryRun(r *http.Request) bool {
	if r.URL.RawQuery == "" || r.Method == http.MethodDelete && r.Body != nil && r.Body != http.NoBody {
		return false
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	values := query["dryRun"]
	return err == nil && len(values) > 0 &&
		!slices.ContainsFunc(values, func(v string) bool { return v != metav1.DryRunAll })
}
