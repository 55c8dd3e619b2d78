package anycontroller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/sharder/api"
)

var (
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// stub is a cluster whose programs only say how they reach the API server. What programs do, the test
// does.
type stub struct {
	*cluster
	dir string
}

func newStub(t testing.TB, flags ...string) stub {
	t.Helper()
	s := stub{dir: t.TempDir()}
	s.cluster = newCluster(t, program{
		name: "stub", resources: []schema.GroupVersionResource{secrets},
		children: []schema.GroupVersionResource{configMaps},
		rights: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets", "configmaps", "serviceaccounts"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
		}},
		flags: flags,
		command: []string{
			"/bin/sh", "-c", `cp "$KUBECONFIG" "$0/.$BELLWETHER_SHARD" &&
				mv "$0/.$BELLWETHER_SHARD" "$0/$BELLWETHER_SHARD" && exec sleep 1000000`, s.dir,
		},
	})
	return s
}

// access starts a replica and returns how its program reaches the API server.
func (s stub) access(name string) *rest.Config {
	s.t.Helper()
	s.start(name)
	return s.begun(name)
}

// begun waits until the program of a replica runs, and returns how it reaches the API server.
func (s stub) begun(name string) *rest.Config {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	require.Eventually(s.t, func() bool { _, err := os.Stat(path); return err == nil }, patience, poll)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(s.t, err)
	config.QPS = -1
	config.UserAgent = "program/" + name
	return config
}

// create creates roots, and waits until each shard has some. It returns the name of one of each.
func (s stub) create(n int, shards ...string) map[string]string {
	s.t.Helper()
	for i := range n {
		_, err := s.client.Resource(secrets).Namespace(s.namespace).Create(s.t.Context(), &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "root-" + strconv.Itoa(i)},
			},
		}, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
	s.among(shards...)
	names := map[string]string{}
	for _, o := range s.list(secrets) {
		names[o.GetLabels()[api.ShardLabel(s.ring)]] = o.GetName()
	}
	return names
}

// wire sends requests as they are.
type wire struct {
	t      testing.TB
	client *http.Client
	host   string
}

func newWire(t testing.TB, config *rest.Config) wire {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return wire{t, client, config.Host}
}

// answer is what a request was answered with. Status is empty if it is none.
type answer struct {
	code   int
	status metav1.Status
	header http.Header
	body   []byte
}

func (w wire) send(method, path, contentType string, body io.Reader) answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.host+path, body)
	require.NoError(w.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := w.client.Do(request)
	require.NoError(w.t, err)
	defer response.Body.Close()
	a := answer{code: response.StatusCode, header: response.Header}
	a.body, err = io.ReadAll(response.Body)
	require.NoError(w.t, err)
	if json.Unmarshal(a.body, &a.status) != nil || a.status.Kind != "Status" {
		a.status = metav1.Status{}
	}
	return a
}

// clear shows that a refusal is one that a program can read.
func (a answer) clear(t testing.TB, what string, code int) {
	t.Helper()
	assert.Equal(t, code, a.code, "%s: %s", what, a.body[:min(len(a.body), 300)])
	assert.Equal(t, metav1.StatusFailure, a.status.Status, "%s: %s", what, a.body[:min(len(a.body), 300)])
	assert.NotEmpty(t, a.status.Message, what)
}

// version is that of an object in the API server.
func (s stub) version(resource schema.GroupVersionResource, name string) string {
	s.t.Helper()
	o, err := s.client.Resource(resource).Namespace(s.namespace).Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	return o.GetResourceVersion()
}

// child is a ConfigMap that a root controls, in JSON, with so much data.
func (s stub) child(root, name string, data string) []byte {
	s.t.Helper()
	o, err := s.client.Resource(secrets).Namespace(s.namespace).Get(s.t.Context(), root, metav1.GetOptions{})
	require.NoError(s.t, err)
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"ownerReferences":[`+
		`{"apiVersion":"v1","kind":"Secret","name":%q,"uid":%q,"controller":true}]},"data":{"x":%q}}`,
		name, root, o.GetUID(), data)
}

// peak is the most memory that bellwether has had, in MiB.
func (r *replica) peak() int { return r.memory("VmHWM") }

// memory reads /proc/<pid>/status of bellwether, below its supervisor.
func (r *replica) memory(field string) int {
	r.cluster.t.Helper()
	pid := r.pid()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(r.cluster.t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == field+":" {
			kib, err := strconv.Atoi(words[1])
			require.NoError(r.cluster.t, err)
			return kib >> 10
		}
	}
	require.FailNow(r.cluster.t, "no "+field)
	return 0
}

// pid is that of bellwether, below its supervisor.
func (r *replica) pid() int {
	r.cluster.t.Helper()
	program, err := r.Program()
	require.NoError(r.cluster.t, err)
	return program.Pid
}

// stream is a watch whose lines the test reads.
func (w wire) stream(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.host+path, nil)
	if err != nil {
		return nil, err
	}
	return w.client.Do(request)
}
