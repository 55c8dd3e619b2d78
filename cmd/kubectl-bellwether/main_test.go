package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/command"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// A resource that was installed since kubectl has filled its cache is found, one that was removed is not.
func TestResourcesAreThoseOfNow(t *testing.T) {
	custom := func(resource, kind string) apisim.Resource {
		return apisim.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource},
			Kind:                 kind, Namespaced: true,
		}
	}
	var api http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.ServeHTTP(w, r) }))
	defer server.Close()
	directory := t.TempDir()
	kubeconfig := filepath.Join(directory, "config")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}`, server.URL), 0o600))
	now := func() (command.Connection, []string) {
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.CacheDir = &kubeconfig, &directory
		c, err := connect(flags)
		require.NoError(t, err)
		kinds, err := c.Listable()
		require.NoError(t, err)
		var names []string
		for _, k := range kinds {
			names = append(names, k.GroupResource().String())
		}
		return c, names
	}

	api = apisim.NewServer(custom("gadgets", "Gadget")).Handler()
	_, names := now()
	require.Contains(t, names, "gadgets.example.com")

	api = apisim.NewServer(custom("widgets", "Widget")).Handler()
	c, names := now()
	assert.Contains(t, names, "widgets.example.com")
	assert.NotContains(t, names, "gadgets.example.com")
	_, err := c.KindOf("gadgets")
	assert.Error(t, err)
	_, err = c.KindOf("widgets")
	assert.NoError(t, err)
}
