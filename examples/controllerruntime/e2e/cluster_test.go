package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	ring     = "digests"        // the program's default
	duration = 10 * time.Second // of Leases: on a busy machine replicas may miss some renewals
	patience = 90 * time.Second
	poll     = 50 * time.Millisecond
)

// cluster is a set of replicas of the example, as processes, in a namespace of their own. They have
// the rights of rbac.yaml and the arguments of deployment.yaml.
type cluster struct {
	t         *testing.T
	namespace string
	client    kubernetes.Interface

	mu        sync.Mutex
	processes map[string]*e2e.Process
	lines     []line
}

// line is a line of a replica's log.
type line struct {
	replica string
	Time    float64 `json:"ts"`
	Message string  `json:"msg"`
	Object  string  `json:"object"`
	Address string  `json:"address"`
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	namespace, err := shared.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	return &cluster{t: t, namespace: namespace, client: client, processes: map[string]*e2e.Process{}}
}

// manifest reads the object of a kind from a manifest of the example.
func manifest[T any](t *testing.T, file, kind string) T {
	t.Helper()
	f, err := os.Open(filepath.Join("..", file))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			require.FailNow(t, "no such object", "%s in %s", kind, file)
		} else {
			require.NoError(t, err)
		}
		var meta metav1.TypeMeta
		require.NoError(t, json.Unmarshal(raw, &meta))
		if meta.Kind == kind {
			var object T
			require.NoError(t, json.Unmarshal(raw, &object))
			return object
		}
	}
}

// start starts a replica like the Pod of that name.
func (c *cluster) start(name string, args ...string) *e2e.Process {
	c.t.Helper()
	user := c.namespace + "-" + name
	require.NoError(c.t,
		shared.Grant(c.t.Context(), user, c.namespace, manifest[rbacv1.Role](c.t, "rbac.yaml", "Role").Rules...))
	kubeconfig, err := shared.Kubeconfig(shared.User(user))
	require.NoError(c.t, err)
	program, err := shared.Program(c.t.Context(), "github.com/bellwether-k8s/bellwether/examples/controllerruntime",
		e2e.Race()...)
	require.NoError(c.t, err)
	container := manifest[appsv1.Deployment](c.t, "deployment.yaml", "Deployment").Spec.Template.Spec.Containers[0]
	values := strings.NewReplacer("$(POD_NAMESPACE)", c.namespace, "$(POD_NAME)", name, "$(POD_UID)", "uid-of-"+name)
	var all []string
	for _, arg := range container.Args {
		all = append(all, values.Replace(arg))
	}
	// If a flag occurs twice, the last one counts.
	all = append(all, "-lease-duration="+duration.String(), "-health-address=127.0.0.1:0", "-journal")
	if runtime.GOOS != "linux" {
		all = append(all, "-kernel-deadline=false")
	}
	return c.run(name, e2e.Command{
		Path: program, Args: append(all, args...), Env: []string{"KUBECONFIG=" + kubeconfig},
		OnLine: func(text string) { c.note(name, text) },
	})
}

// run runs a replica, whose data races end it.
func (c *cluster) run(name string, command e2e.Command) *e2e.Process {
	c.t.Helper()
	command.Name = c.namespace + "-" + name
	command.Env = append(command.Env, "GORACE=halt_on_error=1 atexit_sleep_ms=0")
	p, err := shared.Run(command)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes[name] = p
	return p
}

func (c *cluster) note(replica, text string) {
	l := line{replica: replica}
	if json.Unmarshal([]byte(text), &l) == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, l)
	}
}

// said returns the lines that a replica has logged with a message.
func (c *cluster) said(replica, message string) (found []line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if l.replica == replica && l.Message == message {
			found = append(found, l)
		}
	}
	return found
}

// eventually waits for a condition without a bound of its own. A check begins after the previous
// one has ended.
func (c *cluster) eventually(condition func() bool, message string, args ...any) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			require.Fail(c.t, fmt.Sprintf(message, args...), c.logs())
		}
		select {
		case <-c.t.Context().Done():
			return
		case <-time.After(poll):
		}
	}
}

// logs returns the ends of all logs, for a failure.
func (c *cluster) logs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for name, p := range c.processes {
		text, _ := os.ReadFile(p.Log())
		fmt.Fprintf(&all, "--- %s:\n%s\n", name, text[max(0, len(text)-3000):])
	}
	return all.String()
}

func (c *cluster) requireExit(p *e2e.Process, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	require.Equal(c.t, code, exit.Code, "%s: %s", exit, c.logs())
}

// kill kills a replica. Its work ends with it.
func (c *cluster) kill(name string) {
	c.t.Helper()
	p := c.processes[name]
	require.NoError(c.t, p.Kill())
	exit, err := p.Wait(c.t.Context())
	require.NoError(c.t, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line{replica: name, Time: float64(exit.At.UnixNano()) / 1e9, Message: "was killed"})
}

func (c *cluster) create(n int) {
	c.t.Helper()
	for range n {
		_, err := c.client.CoreV1().ConfigMaps(c.namespace).Create(c.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "m-",
				Labels:       map[string]string{"example.bellwether.dev/digest": "wanted"},
			},
		}, metav1.CreateOptions{})
		require.NoError(c.t, err)
	}
}

// change gives all parents other data.
func (c *cluster) change(data map[string]string) {
	c.t.Helper()
	for _, m := range c.parents() {
		patch, err := json.Marshal(map[string]any{"data": data})
		require.NoError(c.t, err)
		_, err = c.client.CoreV1().ConfigMaps(c.namespace).Patch(c.t.Context(), m.Name, "application/merge-patch+json",
			patch, metav1.PatchOptions{})
		require.NoError(c.t, err)
	}
}

func (c *cluster) parents() []corev1.ConfigMap {
	c.t.Helper()
	all, err := c.client.CoreV1().ConfigMaps(c.namespace).List(c.t.Context(),
		metav1.ListOptions{LabelSelector: "example.bellwether.dev/digest=wanted"})
	require.NoError(c.t, err)
	return all.Items
}

// requireFamilies waits until every parent is with one of these replicas, and its child with it and
// up to date. Each replica has some.
func (c *cluster) requireFamilies(replicas ...string) {
	c.t.Helper()
	c.eventually(func() bool {
		all, err := c.client.CoreV1().Secrets(c.namespace).List(c.t.Context(), metav1.ListOptions{})
		require.NoError(c.t, err)
		children := map[string]corev1.Secret{}
		for _, s := range all.Items {
			children[s.Name] = s
		}
		parents, busy := c.parents(), map[string]bool{}
		for _, m := range parents {
			shard, child := m.Labels[api.ShardLabel(ring)], children[m.Name+"-digest"]
			_, drained := m.Labels[api.DrainLabel(ring)]
			if !slices.Contains(replicas, shard) || drained || child.Labels[api.ShardLabel(ring)] != shard ||
				string(child.Data["sha256"]) != digest(m.Data) {
				return false
			}
			busy[shard] = true
		}
		return len(children) == len(parents) && len(busy) == len(replicas)
	}, "families are not with %v", replicas)
}

// digest is the expected content of a child.
func digest(data map[string]string) string {
	encoded, _ := json.Marshal(data)
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// requireCensus waits until the leader has counted the children.
func (c *cluster) requireCensus(n int) {
	c.t.Helper()
	c.eventually(func() bool {
		m, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(c.t.Context(), "digests-census", metav1.GetOptions{})
		return err == nil && m.Data["digests"] == fmt.Sprint(n)
	}, "the census does not say %d", n)
}

// counters returns who has written the census, in order.
func (c *cluster) counters() (names []string) {
	c.t.Helper()
	events, err := shared.Audit()
	require.NoError(c.t, err)
	for _, e := range events {
		if e.Namespace == c.namespace && e.Resource == "configmaps" && e.Name == "digests-census" &&
			e.Verb == "update" {
			names = append(names, strings.TrimPrefix(e.User, c.namespace+"-"))
		}
	}
	return slices.Compact(names)
}

// moves returns how many children were moved. A child that its parent's shard creates is in its
// place and needs no move.
func (c *cluster) moves() (n int) {
	c.t.Helper()
	events, err := shared.Audit()
	require.NoError(c.t, err)
	for _, e := range events {
		if e.Namespace == c.namespace && e.Resource == "secrets" && e.Verb == "patch" && e.Code == http.StatusOK {
			n++
		}
	}
	return n
}
