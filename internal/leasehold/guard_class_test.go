package leasehold

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRequestsAreClassified(t *testing.T) {
	const ns = "/api/v1/namespaces/ns"
	for _, c := range []struct {
		want  class
		lines string // methods, then a path
	}{
		{harmless, `
			GET,HEAD,OPTIONS /api/v1/namespaces/ns/pods
			GET /api/v1/namespaces/ns/pods?watch=true&timeoutSeconds=300
			GET /api/v1/watch/namespaces/ns/pods
			GET /apis/apps/v1/deployments
			GET /api/v1/namespaces/ns/pods/p/log?follow=true
			GET / /api /apis /api/v1 /apis/apps/v1 /version /healthz /openapi/v3/apis/apps/v1 /apis/ /api/v1/

			GET /api/v1/namespaces/ns/configmaps/exec /api/v1/namespaces/ns/configmaps/proxy /api/v1/nodes/proxy
			GET /api/v1/namespaces/exec /api/v1/namespaces/proxy /api/v1/namespaces/exec/pods/p
			GET /api/v1/namespaces/proxy/pods
			GET /api/v1/namespaces/ns/exec /api/v1/namespaces/ns/proxy /apis/exec/v1/things/proxy
			GET /apis/x.io/exec/things/x
			GET /api/v1/namespaces/ns/pods/p/execute /api/v1/namespaces/ns/pods/p/status/exec
			GET /apis/x.io/v1/namespaces/api/pods/exec /apis/x.io/v1/namespaces/apis/things/x/status
			GET /k8s/clusters/c-1/api/v1/namespaces/ns/pods /proxy /exec /x/exec

			POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
			POST /apis/authorization.k8s.io/v1/subjectaccessreviews
			POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews
			POST /apis/authorization.k8s.io/v1/namespaces/ns/localsubjectaccessreviews
			POST /apis/authentication.k8s.io/v1/selfsubjectreviews /apis/authentication.k8s.io/v1/tokenreviews
			POST /apis/authentication.k8s.io/v1beta1/selfsubjectreviews

			POST,PUT,PATCH /api/v1/namespaces/ns/events/e /apis/events.k8s.io/v1/namespaces/ns/events/e
			POST /api/v1/namespaces/ns/events /apis/events.k8s.io/v1/namespaces/ns/events /api/v1/events
			POST /k8s/clusters/c-1/api/v1/namespaces/ns/events

			POST /api/v1/namespaces/ns/pods?dryRun=All /api/v1/namespaces/ns/pods?a=b&dryRun=All&dryRun=All
			PUT,PATCH,DELETE /apis/apps/v1/namespaces/ns/deployments/d?dryRun=All
			DELETE /apis/apps/v1/namespaces/ns/deployments?dryRun=All
			POST /api/v1/namespaces/ns/pods/p/eviction?dryRun=All
		`},
		{bounded, `
			POST /api/v1/namespaces/ns/pods /api/v1/namespaces /apis/apps/v1/namespaces/ns/deployments
			POST /api/v1/namespaces/ns/pods/
			PUT,PATCH,DELETE /api/v1/namespaces/ns/pods/p /api/v1/nodes/n
			PUT,PATCH,DELETE /apis/apps/v1/namespaces/ns/deployments/d/scale
			DELETE /api/v1/namespaces/ns/pods
			PUT /api/v1/namespaces/ns/finalize /api/v1/namespaces/ns/status
			post,connect,CONNECT,TRACE,QUERY,LINK /api/v1/namespaces/ns/pods
			get,Get /api/v1/namespaces/ns/pods

			PUT /apis/coordination.k8s.io/v1/namespaces/ns/leases/l
			POST /api/v1/namespaces/ns/serviceaccounts/sa/token
			POST /api/v1/namespaces/ns/serviceaccounts/sa/token?dryRun=All
			POST /api/v1/namespaces/ns/pods/p/eviction /api/v1/namespaces/ns/pods/p/binding
			PUT /api/v1/namespaces/ns/configmaps/proxy /api/v1/namespaces/ns/configmaps/exec

			POST /api/v1/namespaces/events /api/v1/namespaces/ns/pods/events /api/v1/pods/events
			POST /api/v1/namespaces/events/pods
			PUT,DELETE /api/v1/namespaces/events
			DELETE /api/v1/namespaces/ns/events/e /api/v1/namespaces/ns/events
			DELETE /apis/events.k8s.io/v1/namespaces/ns/events/e
			POST /apis/x.io/v1/namespaces/ns/events /apis/events.x.io/v1/events /apis/k8s.io/v1/namespaces/ns/events
			POST /apis/events.k8s.io/v1/things /apis/Events.k8s.io/v1/events /api/v1/namespaces/ns/Events
			POST /apis/events.k8s.io.x.io/v1/events /api/v1/namespaces/ns/events/e/status /api/v1/watch/events
			POST /apis/x.io/events/namespaces/ns/things /api/events/v1/things /apis/events.k8s.io/events/things
			PATCH /api/v1/namespaces/ns/things/events/api/v1/events

			PUT,PATCH,DELETE /apis/authorization.k8s.io/v1/selfsubjectaccessreviews
			POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x
			POST /apis/authentication.k8s.io/v1/tokenreviews/x/y
			POST /apis/authorization.x.io/v1/selfsubjectaccessreviews /api/v1/selfsubjectaccessreviews
			POST /apis/authorization.k8s.io/v1/tokenreviews /apis/authentication.k8s.io/v1/subjectaccessreviews
			POST /apis/rbac.authorization.k8s.io/v1/clusterroles /apis/authorization.k8s.io/v1/things

			POST /api/v1/namespaces/ns/pods?dryRun= /api/v1/namespaces/ns/pods?dryRun=all
			POST /api/v1/namespaces/ns/pods?dryrun=All
			POST /api/v1/namespaces/ns/pods?dryRun=All&dryRun= /api/v1/namespaces/ns/pods?dryRun=None&dryRun=All
			POST /api/v1/namespaces/ns/pods?x=dryRun=All /api/v1/namespaces/ns/pods?dryRun=All;x
			POST /api/v1/namespaces/ns/pods#dryRun=All
			POST /api/v1/namespaces/ns/pods?dryRun=All&%zz /api/v1/namespaces/ns/configmaps?dryRun=%41ll2
			POST /api/v1/watch/namespaces/ns/pods?dryRun=All
		`},
		{guarded, `
			GET,HEAD,OPTIONS,POST,PUT,PATCH,DELETE /api/v1/namespaces/ns/pods/p/exec /api/v1/namespaces/ns/pods/p/attach
			GET,POST /api/v1/namespaces/ns/pods/p/portforward
			GET,PUT /api/v1/namespaces/ns/pods/p/proxy /api/v1/namespaces/ns/pods/p/proxy/
			GET,PUT /api/v1/namespaces/ns/pods/https:p:8080/proxy/a/b
			GET,POST /api/v1/nodes/n/proxy/run /api/v1/namespaces/ns/services/s:80/proxy/api/v1/events
			GET /api/v1/pods/p/exec /api/v1/namespaces/exec/pods/p/exec /api/v1/namespaces/ns/pods/exec/exec
			GET /api/v1/proxy/namespaces/ns/pods/p /api/v1/proxy/nodes/n /apis/x.io/v1/proxy/things
			GET /apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/vm/portforward/8080/tcp
			GET /apis/cluster.karmada.io/v1alpha1/clusters/m/proxy/api/v1/namespaces/ns/pods

			GET /api/v1/namespaces/ns/pods/p/EXEC /api/v1/namespaces/ns/pods/p/Proxy /api/v1/PROXY/nodes/n
			GET /api/v1/namespaces/ns/pods/p%2Fexec /api/v1/namespaces/ns/pods%2fp/exec
			GET /api/v1/namespaces/ns/pods/p/%65xec
			GET /api/v1/namespaces/ns%2Fpods%2Fp%2Fexec /%61pi/v1/namespaces/ns/pods/p/exec
			GET /api/v1/namespaces/ns/pods/p/exec/ /api/v1/namespaces/ns/pods/p/exec?watch=true
			GET /api/v1/namespaces/ns/pods/p/exec#x
			GET /api/v1/namespaces/ns/pods/p//exec //api/v1/namespaces/ns/pods/p /api/v1//pods
			GET /api/v1/namespaces/ns/pods/p/x/../exec /api/v1/namespaces/ns/pods/p/./exec /api/v1/pods/..
			GET /api/v1/namespaces/ns/pods/p/x/%2e%2e/exec /api/v1/namespaces/ns/pods/p/%2e/exec
			GET /api/v1/namespaces/ns/pods/p%252Fexec /api/v1/namespaces/ns/pods/p/e%2578ec
			GET /k8s/clusters/c-1/api/v1/namespaces/ns/pods/p/exec /api/clusters/c1/api/v1/namespaces/ns/pods/p/exec
			GET /apis/x/apis/apps/v1/namespaces/ns/pods/p/attach

			POST,PUT,PATCH,DELETE / /healthz /api /apis /apis/apps/v1 /api/v1 /anything/events /events
			POST /v1/namespaces/ns/events /apiz/v1/namespaces/ns/events /API/v1/namespaces/ns/events
			POST /healthz?dryRun=All /foo/bar?dryRun=All
			POST /api/v1/namespaces/ns/services/s/proxy/x?dryRun=All /api/v1/namespaces/ns/pods/p/exec?dryRun=All
			POST /api/v1/namespaces/ns//events /api/v1/namespaces/ns/x/../events /api/v1/namespaces/ns/%65vents/../pods
		`},
	} {
		for line := range strings.Lines(c.lines) {
			methods, paths, _ := strings.Cut(strings.TrimSpace(line), " ")
			for _, path := range strings.Fields(paths) {
				for _, method := range strings.Split(methods, ",") {
					r, err := http.NewRequest("GET", "https://api.invalid"+path, nil)
					require.NoError(t, err)
					r.Method = method
					assert.Equal(t, c.want, classOf(r), "%s %s", method, path)
				}
			}
		}
	}
	deletion := func(body io.Reader) *http.Request {
		r, err := http.NewRequest(http.MethodDelete, "https://api.invalid"+ns+"/pods/p?dryRun=All", body)
		require.NoError(t, err)
		return r
	}
	assert.Equal(t, harmless, classOf(deletion(http.NoBody)))
	assert.Equal(t, bounded, classOf(deletion(strings.NewReader("{}"))),
		"options in a body are the only ones that count")

	assert.Equal(t, guarded, classOf(&http.Request{}), "no URL")
	assert.Equal(t, guarded,
		classOf(&http.Request{URL: &url.URL{Opaque: "//api.invalid" + ns + "/pods/p/exec", Path: ns + "/pods"}}))
	assert.Equal(t, harmless, classOf(&http.Request{URL: &url.URL{Path: ns + "/pods/p"}}), "no method is GET")
	assert.Equal(t, guarded,
		classOf(&http.Request{URL: &url.URL{Path: ns + "/pods/p/exec", RawPath: ns + "/pods/p/log"}}),
		"what is sent is the path, if the raw one is not an encoding of it")
	assert.Equal(t, guarded, classOf(&http.Request{
		URL: &url.URL{Path: "/apis/x.io/v1/things/x/console"}, Header: http.Header{"Upgrade": {"websocket"}},
	}), "an upgraded connection goes both ways")
}

// What is noted as written is the resource that the API server changes.
func TestTargetsOfRequests(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/ns/pods/p":                        "pods//p/",
		"/api/v1/namespaces/ns/pods/p/status":                 "pods//p/status",
		"/apis/apps/v1/namespaces/ns/deployments":             "deployments/apps//",
		"/api/v1/nodes/n":                                     "nodes//n/",
		"/api/v1/namespaces/ns":                               "namespaces//ns/",
		"/api/v1/namespaces/ns/status":                        "namespaces//ns/status",
		"/api/v1/namespaces/ns/finalize":                      "namespaces//ns/finalize",
		"/k8s/clusters/c-1/api/v1/namespaces/ns/configmaps/c": "configmaps//c/",
		"/api/clusters/c1/api/v1/namespaces/ns/configmaps/c":  "///", // not known
		"/apis/x/y/api/v1/namespaces/ns/configmaps/c":         "///",
	} {
		r, err := http.NewRequest(http.MethodPut, "https://api.invalid"+path, nil)
		require.NoError(t, err)
		c, at := classify(r)
		assert.Equal(t, bounded, c, path)
		assert.Equal(t, want, strings.Join([]string{at.resource, at.group, at.name, at.subresource}, "/"), path)
	}
}

func classOf(r *http.Request) class {
	c, _ := classify(r)
	return c
}
