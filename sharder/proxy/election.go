package proxy

import (
	"net/http"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// election gives the program a Lease of its own instead of one that its replicas share.
type election struct {
	of    types.NamespacedName // empty: the program elects no leader
	shard *shardlease.Lease
}

// concerns reports whether a request may be about the election's object, or about others of its kind.
func (l election) concerns(q request) bool {
	if l.of.Name == "" || q.namespace != l.of.Namespace {
		return false
	}
	switch q.resource.GroupResource() {
	case schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"},
		schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Resource: "endpoints"}:
		return true
	}
	return false
}

// ownName is that of the object for this shard's program.
func (l election) ownName() string { return l.of.Name + "-" + l.shard.Identity() }

// owners returns the shard's Lease, with which Kubernetes deletes the election's object, unless it is in another
// namespace.
func (l election) owners() []metav1.OwnerReference {
	term, err := l.shard.Term()
	if err != nil || l.of.Namespace != l.shard.Namespace() {
		return nil
	}
	return []metav1.OwnerReference{{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Name: l.shard.Identity(),
		UID: term.Epoch().LeaseUID,
	}}
}

// show is the editor that makes the shard's object that of the program.
func (l election) show(m *objectMeta) error {
	if m.name != l.ownName() {
		return nil
	}
	m.name = l.of.Name
	if len(m.owners) == 1 && m.owners[0].Kind == "Lease" && m.owners[0].Name == l.shard.Identity() {
		m.owners = nil
	}
	return nil
}

// elect sends a request about the election's object to the one of this shard. If it is about other objects, it
// returns the request that is to be sent for the program.
func (p *Proxy) elect(w http.ResponseWriter, r *http.Request, e *exchange) (others *http.Request) {
	l := p.election
	e.edit = l.show
	query := r.URL.Query()
	var data []byte
	switch e.q.verb {
	case "create", "update", "patch":
		var ok bool
		if data, ok = p.body(w, r, e); !ok {
			return nil
		}
		r = withBody(r, data)
	}
	switch {
	case e.q.name == l.of.Name:
		at := strings.LastIndex(r.URL.Path, "/"+l.of.Name)
		r = r.Clone(r.Context())
		r.URL.Path = r.URL.Path[:at+1] + l.ownName() + r.URL.Path[at+1+len(l.of.Name):]
		r.URL.RawPath = ""
	case query.Get("fieldSelector") == "metadata.name="+l.of.Name:
		query.Set("fieldSelector", "metadata.name="+l.ownName())
		r = withQuery(r, query)
	case e.q.verb != "create" || e.q.name != "":
		return r
	}
	if len(data) > 0 && !isJSONPatch(r) {
		named := false
		renamed, err := p.editRequest(r, data, func(m *objectMeta) error {
			if m.name != l.of.Name {
				return nil
			}
			m.name, named = l.ownName(), true
			if len(m.owners) == 0 && e.q.verb != "patch" {
				m.owners = l.owners() // also in updates, because the program does not see them
			}
			return nil
		})
		switch {
		case err != nil:
			p.invalid(w, e, err)
			return nil
		case e.q.verb == "create" && !named:
			return r
		}
		r = withBody(r, renamed)
	}
	p.reverse.ServeHTTP(w, r)
	return nil
}
