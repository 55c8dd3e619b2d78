package anycontroller_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const (
	duration = 15 * time.Second // of leases: a busy machine can keep those
	// patience is for what has no bound of its own.
	patience = 5 * time.Minute
	poll     = 100 * time.Millisecond
)

// program is a controller that knows nothing of bellwether.
type program struct {
	name      string
	resources []schema.GroupVersionResource
	children  []schema.GroupVersionResource
	// rights are what its own manifest grants, in the whole cluster.
	rights []rbacv1.PolicyRule
	// flags are more of bellwether's, and command the program with its own.
	flags, command []string
	environment    []string
}

// cluster is the replicas of one ring, as processes, and the judge of what they do.
type cluster struct {
	t         testing.TB
	cp        *e2e.ControlPlane
	program   program
	namespace string // of the objects, and of the leases
	ring      string
	path      string // of bellwether
	client    dynamic.Interface
	judge     *judge
	lease     time.Duration // of the replicas
	ended     bool

	mu       sync.Mutex
	replicas map[string]*replica
}

// replica is one process of bellwether, and its program.
type replica struct {
	*e2e.Process
	cluster *cluster
	name    string
}

func dynamicAdmin() (dynamic.Interface, error) { return dynamic.NewForConfig(shared.Admin()) }

// newCluster returns a cluster without replicas. Its ring has the objects of all namespaces, so tests
// with the same resources must not run at a time.
func newCluster(t testing.TB, p program) *cluster {
	t.Helper()
	namespace, err := shared.Namespace(t.Context(), p.name)
	require.NoError(t, err)
	client, err := dynamicAdmin()
	require.NoError(t, err)
	path, err := shared.Program(t.Context(), bellwether)
	require.NoError(t, err)
	c := &cluster{
		t: t, cp: shared, program: p, namespace: namespace, ring: namespace, path: path, client: client,
		judge: newJudge(namespace), lease: duration, replicas: map[string]*replica{},
	}
	t.Cleanup(c.end)
	c.judge.follow(t, shared, namespace, p)
	return c
}

// end ends all processes, shows that no process of a program is left, and removes the objects, which
// another ring would take.
func (c *cluster) end() {
	for _, r := range c.replicas {
		_ = r.Kill()
	}
	if c.ended {
		return
	}
	c.ended = true
	assert.Eventually(c.t, func() bool { return len(c.programs("")) == 0 }, time.Minute, poll,
		"programs outlive their bellwether")
	//nolint:usetesting // the test's context has ended
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, each := range slices.Concat(c.program.resources, c.program.children) {
		objects := c.client.Resource(each).Namespace(c.namespace)
		list, err := objects.List(ctx, metav1.ListOptions{})
		if !assert.NoError(c.t, err) {
			continue
		}
		for _, o := range list.Items {
			if len(o.GetFinalizers()) > 0 {
				_, err = objects.Patch(ctx, o.GetName(), "application/merge-patch+json",
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				assert.NoError(c.t, err)
			}
		}
		_ = objects.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
	}
}

// rights are those of a replica: what the documentation of package sharder lists, and what the program
// needs.
func (c *cluster) rights() (namespace, cluster []rbacv1.PolicyRule) {
	namespace = []rbacv1.PolicyRule{
		{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"create", "get", "list", "watch", "update", "delete"},
		},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"watch"}},
	}
	for _, each := range slices.Concat(c.program.resources, c.program.children) {
		cluster = append(cluster, rbacv1.PolicyRule{
			APIGroups: []string{each.Group}, Resources: []string{each.Resource},
			Verbs: []string{"get", "list", "watch", "patch"},
		})
	}
	return namespace, append(cluster, c.program.rights...)
}

// user returns that of a replica, with its rights.
func (c *cluster) user(name string) *rest.Config {
	c.t.Helper()
	user := c.namespace + "-" + name
	if !c.judge.expect(user, name) {
		namespace, cluster := c.rights()
		require.NoError(c.t, c.cp.Grant(c.t.Context(), user, c.namespace, namespace...))
		require.NoError(c.t, c.cp.Grant(c.t.Context(), user, "", cluster...))
	}
	return c.cp.User(user, replicasGroup)
}

// start starts a replica, with its rights.
func (c *cluster) start(name string) *replica {
	c.t.Helper()
	r, err := c.run(name, name, c.user(name))
	require.NoError(c.t, err)
	c.replicas[name] = r
	return r
}

// run starts a process for a shard.
func (c *cluster) run(process, name string, config *rest.Config) (*replica, error) {
	kubeconfig, err := c.cp.Kubeconfig(config)
	if err != nil {
		return nil, err
	}
	arguments := []string{
		"run", "--kubeconfig", kubeconfig, "--namespace", c.namespace, "--ring", c.ring, "--shard", name,
		"--duration", c.lease.String(), "--grace", (c.lease / 3).String(), "--health-address", "127.0.0.1:0",
	}
	for _, each := range c.program.resources {
		arguments = append(arguments, "--resource", flagOf(each))
	}
	for _, each := range c.program.children {
		arguments = append(arguments, "--children", flagOf(each))
	}
	arguments = slices.Concat(arguments, c.program.flags, []string{"--"}, c.program.command)
	p, err := c.cp.Run(e2e.Command{
		Name: c.namespace + "-" + process, Path: c.path, Args: arguments, Env: c.program.environment, Supervised: true,
	})
	return &replica{Process: p, cluster: c, name: name}, err
}

func flagOf(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Version+"."+r.Group, ".")
}

// programs are the processes of the programs of a shard, or of all.
func (c *cluster) programs(shard string) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(c.t, err)
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil { // ended, or another user's
			continue
		}
		of := bytes.Split(environment, []byte{0})
		has := func(variable, value string) bool {
			return slices.ContainsFunc(of, func(b []byte) bool { return string(b) == variable+"="+value })
		}
		if has("BELLWETHER_RING", c.ring) && (shard == "" || has("BELLWETHER_SHARD", shard)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// address is where bellwether answers probes, by its log.
func (r *replica) address() string {
	r.cluster.t.Helper()
	said := regexp.MustCompile(`"answering probes".*"address":"([^"]+)"`)
	var found string
	require.Eventually(r.cluster.t, func() bool {
		log, err := os.ReadFile(r.Log())
		if all := said.FindAllSubmatch(log, -1); err == nil && len(all) > 0 {
			found = string(all[len(all)-1][1])
		}
		return found != ""
	}, patience, poll, "no line about the probes in %s", r.Log())
	return found
}

// metrics are those of the replica's proxy, as text.
func (r *replica) metrics() string {
	r.cluster.t.Helper()
	response, err := http.Get("http://" + r.address() + "/metrics")
	require.NoError(r.cluster.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(r.cluster.t, err)
	return string(text)
}

// list returns the objects of a resource.
func (c *cluster) list(resource schema.GroupVersionResource) []unstructured.Unstructured {
	c.t.Helper()
	list, err := c.client.Resource(resource).Namespace(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// shares returns how many roots each shard has. Those that are moving are under "moving", and those of
// no shard under "".
func (c *cluster) shares() map[string]int {
	c.t.Helper()
	counts := map[string]int{}
	for _, resource := range c.program.resources {
		for _, o := range c.list(resource) {
			if _, moving := o.GetLabels()[api.DrainLabel(c.ring)]; moving {
				counts["moving"]++
			} else {
				counts[o.GetLabels()[api.ShardLabel(c.ring)]]++
			}
		}
	}
	return counts
}

// among waits until all roots are with these shards, and each has a share: a tenth of an even one at
// least, because consistent hashing is not exact for so few.
func (c *cluster) among(names ...string) {
	c.t.Helper()
	var counts map[string]int
	ok := assert.Eventually(c.t, func() bool {
		counts = c.shares()
		total, least := 0, 1<<30
		for _, n := range counts {
			total += n
		}
		for _, name := range names {
			least = min(least, counts[name])
		}
		return len(counts) == len(names) && 10*len(names)*least >= total
	}, patience, poll)
	require.True(c.t, ok, "want a share for each of %v, got %v", names, counts)
	c.t.Logf("shares: %v", counts)
}

// until waits until a condition holds, which returns why it does not.
func (c *cluster) until(what string, holds func() string) {
	c.t.Helper()
	began, why := time.Now(), ""
	for ; ; time.Sleep(poll) {
		if why = holds(); why == "" {
			c.t.Logf("%s: %v", what, time.Since(began).Round(poll))
			return
		}
		if time.Since(began) > patience {
			require.FailNow(c.t, what, "%s; shares %v", why, c.shares())
		}
	}
}

// digest has the judge judge all that was written so far, and returns how many writes those are.
func (c *cluster) digest() (judged int) {
	c.t.Helper()
	c.until("judged", func() string {
		require.NoError(c.t, c.cp.DigestAudit(c.judge.audit))
		now, remaining := c.judge.settle()
		judged += now
		if len(remaining) > 0 {
			return fmt.Sprintf("%d writes wait for versions: %+v", len(remaining), remaining[0])
		}
		return ""
	})
	return judged
}

// judged fails the test for what the judge finds.
func (c *cluster) judged() {
	c.t.Helper()
	total := c.digest()
	c.judge.mu.Lock()
	defer c.judge.mu.Unlock()
	assert.Empty(c.t, c.judge.breaches, "writes to an object by a replica while another owned it")
	assert.Empty(c.t, c.judge.lost, "versions without the ring's marks")
	assert.Positive(c.t, total)
	c.t.Logf("%d writes judged, %d breaches; by shard %v; refused by the API server, by status: %v", total,
		len(c.judge.breaches), c.judge.byShard, c.judge.refused)
}
