// Package ringtest has helpers for the tests of the sharder, the shard and their protocol.
package ringtest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resources of [TestMapper].
var (
	ConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	Pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	Nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	Widgets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// TestMapper maps ConfigMaps, Pods, Services, Nodes, Namespaces and Widgets.
func TestMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(ConfigMaps.GroupVersion().WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(Pods.GroupVersion().WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(Services.GroupVersion().WithKind("Service"), meta.RESTScopeNamespace)
	m.Add(Nodes.GroupVersion().WithKind("Node"), meta.RESTScopeRoot)
	m.Add(ConfigMaps.GroupVersion().WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(Widgets.GroupVersion().WithKind("Widget"), meta.RESTScopeNamespace)
	return m
}

// SelectorOf parses a label selector.
func SelectorOf(t *testing.T, s string) labels.Selector {
	t.Helper()
	parsed, err := labels.Parse(s)
	require.NoError(t, err)
	return parsed
}

// RoundTripper is a function that implements http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// IsPatch reports whether a request is a patch.
func IsPatch(r *http.Request) bool { return r.Method == http.MethodPatch }

// Preconditions records the UID and the resourceVersion of each patch that a connection sends.
type Preconditions struct {
	mu  sync.Mutex
	all []precondition // guarded by mu
}

type precondition struct{ UID, ResourceVersion string }

// Note records the preconditions of a request. It ignores dry runs, and requests that are not
// patches.
func (p *Preconditions) Note(q *http.Request) {
	if !IsPatch(q) || q.URL.Query().Get("dryRun") != "" {
		return
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		panic(err)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	var patch struct{ Metadata precondition }
	if err := json.Unmarshal(body, &patch); err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, patch.Metadata)
}

// Require fails the test unless at least that many patches were sent, each with a UID and a
// resourceVersion.
func (p *Preconditions) Require(t *testing.T, atLeast int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.GreaterOrEqual(t, len(p.all), atLeast)
	for _, c := range p.all {
		require.NotEmpty(t, c.UID, "a patch would be carried out on another object of the same name")
		require.NotEmpty(t, c.ResourceVersion, "a patch would be carried out on what was not decided on")
	}
}
