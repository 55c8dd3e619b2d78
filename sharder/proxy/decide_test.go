package proxy

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is asked, and what is to be done, for each kind of request about a root, a child and all else.
func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		method, path             string
		want                     request
		forRoot, forChild, else_ action
	}{
		{"GET", "/api/v1/pods?watch=True", of("watch", "", "pods", "", "", ""), selectOwn, selectOwn, pass},
		{"GET", "/api/v1/namespaces/n/pods/p", of("get", "", "pods", "n", "p", ""), pass, pass, pass},
		{"GET", "/api/v1/namespaces/n/pods", of("list", "", "pods", "n", "", ""), selectOwn, selectOwn, pass},
		{"GET", "/api/v1/pods?watch=true", of("watch", "", "pods", "", "", ""), selectOwn, selectOwn, pass},
		{"GET", "/api/v1/pods?watch=1&limit=5", of("watch", "", "pods", "", "", ""), selectOwn, selectOwn, pass},
		{"GET", "/api/v1/watch/pods", of("watch", "", "pods", "", "", ""), selectOwn, selectOwn, pass},
		{"GET", "/api/v1/watch/namespaces/n/pods", of("watch", "", "pods", "n", "", ""), selectOwn, selectOwn, pass},
		{"DELETE", "/api/v1/namespaces/n/pods", of("deletecollection", "", "pods", "n", "", ""), doEach, doEach, pass},
		{"DELETE", "/api/v1/namespaces/n/pods/p", of("delete", "", "pods", "n", "p", ""), do, do, pass},
		{"PUT", "/apis/g/v1/namespaces/n/things/x", of("update", "g", "things", "n", "x", ""), do, do, pass},
		{"PUT", "/apis/g/v1/namespaces/n/ts/x/status", of("update", "g", "ts", "n", "x", "status"), do, do, pass},
		{"PATCH", "/apis/g/v1/things/x/scale", of("patch", "g", "things", "", "x", "scale"), do, do, pass},
		{"POST", "/api/v1/namespaces/n/pods", of("create", "", "pods", "n", "", ""), pass, stamp, pass},
		{"POST", "/api/v1/namespaces/n/pods/p/eviction", of("create", "", "pods", "n", "p", "eviction"), do, do, pass},
		{"POST", "/api/v1/namespaces/n/pods/p/exec", of("connect", "", "pods", "n", "p", "exec"), pass, pass, pass},
		{"GET", "/api/v1/namespaces/n/pods/p/log", of("connect", "", "pods", "n", "p", "log"), pass, pass, pass},
		{
			"PUT", "/api/v1/namespaces/n/pods/p/proxy/a", of("connect", "", "pods", "n", "p", "proxy/a"), pass, pass,
			pass,
		},
		{"GET", "/api/v1/namespaces", of("list", "", "namespaces", "", "", ""), selectOwn, selectOwn, pass},
		{"PUT", "/api/v1/namespaces/n", of("update", "", "namespaces", "", "n", ""), do, do, pass},
		{"PUT", "/api/v1/namespaces/n/finalize", of("update", "", "namespaces", "", "n", "finalize"), do, do, pass},
		{"PURGE", "/api/v1/namespaces/n/pods/p", of("unknown", "", "pods", "n", "p", ""), refuse, refuse, refuse},
		{"GET", "/version", request{}, pass, pass, pass},
		{"GET", "/apis/g", request{}, pass, pass, pass},
		{"GET", "/apis/g/v1", request{}, pass, pass, pass},
		{"PUT", "/api/v1/namespaces/n/../other/pods/p", request{verb: "ambiguous"}, refuse, refuse, refuse},
	} {
		q := parse(httptest.NewRequest(c.method, c.path, nil))
		assert.Equal(t, c.want, q, c.method+" "+c.path)
		assert.Equal(t, c.forRoot, decide(q, root), "as a root: %s %s", c.method, c.path)
		assert.Equal(t, c.forChild, decide(q, child), "as a child: %s %s", c.method, c.path)
		assert.Equal(t, c.else_, decide(q, outside), "outside of the ring: %s %s", c.method, c.path)
	}
}

func of(verb, group, resource, namespace, name, subresource string) request {
	return request{
		verb: verb, resource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource},
		namespace: namespace, name: name, subresource: subresource,
	}
}
