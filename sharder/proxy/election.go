package proxy

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// election gives the program a Lease of its own instead of one that its replicas share.
type election struct {
	of    types.NamespacedName // empty: the program elects no leader
	shard string
}

// concerns reports whether a request may be about the election's object.
func (l election) concerns(q request) bool {
	if l.of.Name == "" || q.namespace != l.of.Namespace {
		return false
	}
	switch q.resource.GroupResource() {
	case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"},
		schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "endpoints"}:
	default:
		return false
	}
	return q.name == l.of.Name || q.name == "" && (q.verb == "create" || q.verb == "list" || q.verb == "watch")
}

// ownName is that of the object for this shard's program.
func (l election) ownName() string { return l.of.Name + "-" + l.shard }

// rename returns an editor that gives an object another name.
func rename(from, to string) editor {
	return func(m *objectMeta) error {
		if m.name == from {
			m.name = to
		}
		return nil
	}
}

// elect sends a request about the election's object to the one of this shard.
func (p *Proxy) elect(w http.ResponseWriter, r *http.Request, e *exchange) {
	l := p.election
	r = r.Clone(r.Context())
	if e.q.name != "" {
		at := strings.LastIndex(r.URL.Path, "/"+l.of.Name)
		r.URL.Path = r.URL.Path[:at+1] + l.ownName() + r.URL.Path[at+1+len(l.of.Name):]
		r.URL.RawPath = ""
	}
	query := r.URL.Query()
	if selector := query.Get("fieldSelector"); selector == "metadata.name="+l.of.Name {
		query.Set("fieldSelector", "metadata.name="+l.ownName())
		r.URL.RawQuery = query.Encode()
	}
	e.edit = rename(l.ownName(), l.of.Name)
	if e.q.verb != "create" && e.q.verb != "update" && !isApply(r) {
		p.reverse.ServeHTTP(w, r)
		return
	}
	data, ok := p.body(w, r, e)
	if !ok {
		return
	}
	data, err := p.editRequest(r, data, rename(l.of.Name, l.ownName()))
	if err != nil {
		p.invalid(w, e, err)
		return
	}
	p.reverse.ServeHTTP(w, withBody(r, data))
}
