package kubectl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	duration = 15 * time.Second // D: it outlasts a busy machine
	patience = time.Minute
	poll     = 100 * time.Millisecond
	objects  = 30
)

// user is somebody with the plugin, in a namespace with a ring and an election.
type user struct {
	t          *testing.T
	plugin     string
	kubeconfig string // of an admin
	namespace  string
	client     kubernetes.Interface
}

func newUser(t *testing.T) *user {
	t.Helper()
	plugin, err := shared.ProgramOf(t.Context(), "../../../cmd/kubectl-bellwether", ".")
	require.NoError(t, err)
	u := &user{t: t, plugin: plugin}
	u.kubeconfig, err = shared.Kubeconfig(shared.Admin())
	require.NoError(t, err)
	u.namespace, err = shared.Namespace(t.Context(), "plugin")
	require.NoError(t, err)
	u.client, err = kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	return u
}

// as runs the plugin with a kubeconfig and returns what it prints.
func (u *user) as(kubeconfig string, args ...string) (string, error) {
	u.t.Helper()
	command := exec.CommandContext(u.t.Context(), u.plugin,
		append(args, "--kubeconfig", kubeconfig, "-n", u.namespace, "--cache-dir", u.t.TempDir())...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), errors.New(err.Error() + ": " + stderr.String())
	}
	return stdout.String(), nil
}

// run runs the plugin as an admin. It must succeed.
func (u *user) run(args ...string) string {
	u.t.Helper()
	out, err := u.as(u.kubeconfig, args...)
	require.NoError(u.t, err, out)
	return out
}

// program starts one of the examples.
func (u *user) program(example, name string, args ...string) *e2e.Process {
	u.t.Helper()
	path, err := shared.Program(u.t.Context(), "github.com/bellwether-k8s/bellwether/examples/"+example)
	require.NoError(u.t, err)
	p, err := shared.Run(e2e.Command{
		Name: u.namespace + "-" + name, Path: path, Supervised: true,
		Args: slices.Concat([]string{
			"-kubeconfig", u.kubeconfig, "-namespace", u.namespace, "-identity", name,
			"-lease-duration", duration.String(),
		}, args),
	})
	require.NoError(u.t, err)
	u.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// shard starts a replica of the ring, which has the name of the namespace.
func (u *user) shard(name string, args ...string) *e2e.Process {
	u.t.Helper()
	return u.program("sharding", name, append(args, "-ring", u.namespace)...)
}

// ring is what the plugin prints of a ring as JSON.
type ring struct {
	Sharder *struct{ Holder, State string }
	Shards  []struct {
		Name, State string
		Objects     int
	}
	Resources []struct {
		Resource string
		Objects  int
	}
	Drains  []struct{ Name, To, Since string }
	Orphans []struct{ Name, Why string }
}

func (u *user) ring() (r ring) {
	u.t.Helper()
	require.NoError(u.t, json.Unmarshal([]byte(u.run("ring", u.namespace, "-o", "json")), &r))
	return r
}

// row returns the words of the first line that begins with these words.
func row(out string, first ...string) []string {
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) >= len(first) && slices.Equal(words[:len(first)], first) {
			return words
		}
	}
	return nil
}

// The plugin shows a ring and an election of the examples from their beginning to their end, and
// removes what is left of the ring.
func TestPluginShowsARingAndAnElection(t *testing.T) {
	u := newUser(t)
	for i := range objects {
		_, err := u.client.CoreV1().ConfigMaps(u.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("x", i), Labels: map[string]string{"example.bellwether.dev/checksum": "wanted"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	leader := u.program("leaderelection", "one")
	a := u.shard("a")
	b := u.shard("b", "-workers", fmt.Sprint(objects), "-work-takes", "1m", "-resync", "100ms", "-weight", "50",
		"-version", "v2")
	settled := func(members int) func() bool {
		return func() bool {
			out, err := u.as(u.kubeconfig, "ring", u.namespace, "-o", "json")
			var r ring
			return err == nil && json.Unmarshal([]byte(out), &r) == nil && len(r.Shards) == members &&
				len(r.Orphans)+len(r.Drains) == 0 && len(r.Resources) == 1 && r.Resources[0].Objects == objects
		}
	}
	require.Eventually(t, settled(2), patience, poll)

	out := u.run("status")
	assert.Equal(t, []string{"Held", "one"}, row(out, u.namespace, "example-daemon")[2:4], out)
	sharder := row(out, u.namespace, u.namespace+"-sharder")[3]
	assert.Equal(t, []string{u.namespace, u.namespace, "2/2", "0", sharder}, row(out, u.namespace, u.namespace), out)
	out = u.run("ring", u.namespace)
	assert.Equal(t, []string{"Ready", "100", "66.7%"}, row(out, "a")[1:4], out)
	assert.Equal(t, []string{"Ready", "50", "33.3%"}, row(out, "b")[1:4], out)
	assert.True(t, strings.HasSuffix(strings.Join(row(out, "b"), " "), " v2"), out)
	assert.Equal(t, []string{"configmaps", fmt.Sprint(objects), "0"}, row(out, "configmaps"), out)

	m, err := u.client.CoreV1().ConfigMaps(u.namespace).Get(t.Context(), "x0", metav1.GetOptions{})
	require.NoError(t, err)
	owner := m.Labels["shard.bellwether.dev/"+u.namespace]
	out = u.run("explain", "cm/x0")
	assert.Equal(t, []string{"owner", owner, "(Ready),", "in", "epoch", "1"}, row(out, "owner"), out)
	assert.Equal(t, []string{"waits", "for", "nothing"}, row(out, "waits"), out)
	assert.NotNil(t, row(out, "since"), "the API server notes who has written the record:\n%s", out)

	t.Run("with too few rights", func(t *testing.T) { u.requireRightsAreNamed(t) })

	// A shard is drained, and no more.
	u.run("weigh", "a", "0", "--confirm")
	require.Eventually(t, func() bool {
		r := u.ring()
		return len(r.Drains) == 0 && r.Shards[0].State == "Ready" && r.Shards[0].Objects == 0
	}, patience, poll)
	out = u.run("status")
	assert.Equal(t, []string{"1/1,", "1", "drained"}, row(out, u.namespace, u.namespace)[2:5], out)
	u.run("weigh", "a", "--undo", "--confirm")
	require.Eventually(t, func() bool { return settled(2)() && u.ring().Shards[0].Objects > 0 }, patience, poll)

	// The plan comes true.
	var planned struct {
		Moves []struct {
			From, To string
			Objects  int
		}
		Stay, Displaced int
	}
	require.NoError(t, json.Unmarshal([]byte(u.run("plan", u.namespace, "--without", "a", "-o", "json")), &planned))
	assert.Zero(t, planned.Displaced)
	before := u.ring()
	require.NoError(t, a.Terminate())
	select {
	case <-a.Done():
	case <-time.After(patience):
		require.Fail(t, "a has not ended", a.Log())
	}
	require.Eventually(t, func() bool {
		r := u.ring()
		return len(r.Orphans)+len(r.Drains) == 0 && r.Shards[1].Objects == objects
	}, patience, poll)
	assert.Equal(t, before.Shards[1].Objects, planned.Stay)
	if n := before.Shards[0].Objects; assert.Positive(t, n, "shard a had objects") {
		require.Len(t, planned.Moves, 1)
		assert.Equal(t, n, planned.Moves[0].Objects)
	}
	assert.Equal(t, "Dead", u.ring().Shards[0].State)

	// A shard comes back while work on the objects that it should have goes on.
	a = u.shard("a-again")
	var drained ring
	require.Eventually(t, func() bool {
		drained = u.ring()
		return len(drained.Drains) > 0 && drained.Drains[0].Since != ""
	}, patience, poll, "work in shard b is on all objects, and has 10 s to end")
	out = u.run("explain", "configmap/"+drained.Drains[0].Name)
	assert.Equal(t, []string{"step", "await"}, row(out, "step"), out)
	assert.Contains(t, out, "shard b, which is asked to end its work on it since")
	assert.Equal(t, "a-again", drained.Drains[0].To)
	_, err = u.as(u.kubeconfig, "uninstall", u.namespace, "--confirm")
	assert.ErrorContains(t, err, "shard b is Ready: end all replicas first")

	require.NoError(t, leader.Terminate())
	for _, p := range []*e2e.Process{a, b} {
		require.NoError(t, p.Terminate())
	}
	require.Eventually(t, func() bool {
		return strings.Count(u.run("orphans", u.namespace), "is Dead") == objects
	}, patience, poll)
	out = u.run("status")
	assert.Equal(t, []string{"Released", "-"}, row(out, u.namespace, "example-daemon")[2:4], out)
	assert.Equal(t, []string{u.namespace, u.namespace, "0/0", "3", "none"}, row(out, u.namespace, u.namespace), out)

	out = u.run("uninstall", u.namespace)
	assert.Contains(t, out, "Nothing was changed.")
	assert.Len(t, u.ring().Orphans, objects)
	out = u.run("uninstall", u.namespace, "--confirm")
	assert.Contains(t, out, "Ring "+u.namespace+" is removed.")
	u.requireNothingLeft()
}

// requireRightsAreNamed lets somebody look who may list ConfigMaps of the namespace only.
func (u *user) requireRightsAreNamed(t *testing.T) {
	name := u.namespace + "-guest"
	kubeconfig, err := shared.Kubeconfig(shared.User(name))
	require.NoError(t, err)
	require.NoError(t, shared.Grant(t.Context(), name, u.namespace,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}))
	_, err = u.as(kubeconfig, "status")
	for _, right := range []string{
		"list on resource leases of API group \"coordination.k8s.io\" in namespace " + u.namespace,
		"list on resource endpointslices of API group \"discovery.k8s.io\" in namespace " + u.namespace,
	} {
		assert.ErrorContains(t, err, right)
	}
	require.NoError(t, shared.Grant(t.Context(), name, u.namespace, rbacv1.PolicyRule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list"},
	}))
	out, err := u.as(kubeconfig, "ring", u.namespace)
	require.NoError(t, err)
	assert.Equal(t, []string{"configmaps", fmt.Sprint(objects), "0"}, row(out, "configmaps"), out)
	assert.Contains(t, out, "Only in namespace "+u.namespace)
	assert.Contains(t, out, "Not looked for, because you may not list them:")
	_, err = u.as(kubeconfig, "uninstall", u.namespace, "--resource=configmaps", "--object-namespace="+u.namespace,
		"--confirm")
	assert.Error(t, err)
	_, err = u.as(kubeconfig, "fence", "w1")
	for _, right := range []string{
		"get on resource nodes", "get on resource nodefences", "create on resource nodefences",
	} {
		assert.ErrorContains(t, err, right)
	}
}

func (u *user) requireNothingLeft() {
	u.t.Helper()
	leases, err := u.client.CoordinationV1().Leases(u.namespace).List(u.t.Context(), metav1.ListOptions{})
	require.NoError(u.t, err)
	var names []string
	for _, l := range leases.Items {
		names = append(names, l.Name)
	}
	assert.Equal(u.t, []string{"example-daemon"}, names)
	maps, err := u.client.CoreV1().ConfigMaps(u.namespace).List(u.t.Context(), metav1.ListOptions{})
	require.NoError(u.t, err)
	found := 0
	for _, m := range maps.Items {
		if m.Name == "kube-root-ca.crt" {
			continue
		}
		found++
		assert.Equal(u.t, map[string]string{"example.bellwether.dev/checksum": "wanted"}, m.Labels, m.Name)
		for key := range m.Annotations {
			assert.Equal(u.t, "example.bellwether.dev/sha256", key)
		}
	}
	assert.Equal(u.t, objects, found, "the objects stay")
}
