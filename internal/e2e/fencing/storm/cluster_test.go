package storm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
)

const (
	patience = 5 * time.Minute // for what has no bound of its own
	poll     = 50 * time.Millisecond
)

// root is where the repository begins.
const root = "../../../.."

// fencer is the name of the fencers, of their namespace, and of everything that they have, as in
// the example.
const fencer = "fencer"

// worker is the label of the nodes that may be fenced.
const worker = "worker"

// settings of machines. A node has to fail for longer than the control plane takes to see it of one
// after the other, or a storm would look like single losses.
const settings = `node_name={{.NodeName}}
isolation=mark-unschedulable
power_management=plug-off plug-on
recovery=mark-schedulable
not_ready_for=%v
power_wait=1s
boot_grace=3m
`

// rest is the group that is never lost. Its machines get more time: where there is little to
// compute with, a process that plays many kubelets may be late.
const rest = "rest"

const method = "template=fence-method-template-rack\nplug={{.NodeName}}\nsettle=1s\naction="

// limits of tests: as the default ones to each other and to what kubelets do here, but faster.
var limits = api.Limits{
	Observation: 5 * time.Second, LeaseSilence: 10 * time.Second, CoolDown: 5 * time.Second,
	MaxStarts: 1000,
}

// cluster is a control plane, whose nodes are machines that have their power from a rack. What the
// nodes of a group have in common fails with its process.
type cluster struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	client    kubernetes.Interface
	rack      *fencingtest.Rack
	plugs     map[string]*lab.Plug // of machines with power from a PDU, by node
	url       string               // of the rack
	groups    map[string][]string
	namespace string // of pods
	history   *history
	replicas  int
	boots     func(node string) // is called before a machine starts that has power again
}

// newCluster returns one with so many nodes in each group.
func newCluster(t *testing.T, sizes map[string]int) *cluster {
	t.Helper()
	c := &cluster{t: t, groups: map[string][]string{}, boots: func(string) {}}
	for group, size := range sizes {
		for i := range size {
			c.groups[group] = append(c.groups[group], fmt.Sprintf("%s-%d", group, i))
		}
	}
	c.cp = e2e.Start(t, e2e.Options{ControllerManager: true, Groups: c.groups})
	var err error
	c.client, err = kubernetes.NewForConfig(c.cp.Admin())
	require.NoError(t, err)
	c.namespace, err = c.cp.Namespace(t.Context(), "storm")
	require.NoError(t, err)
	for _, manifest := range []string{
		"fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml",
		"examples/fencer/rbac.yaml",
	} {
		require.NoError(t, c.cp.Apply(t.Context(), filepath.Join(root, manifest)))
	}
	for group, nodes := range c.groups {
		wait := "5s"
		if group == rest {
			wait = "10m"
		}
		c.configure("fence-config-type-"+group, map[string]string{
			"config.properties": fmt.Sprintf(settings, wait), "fence-method-plug-off": method + "off\n",
			"fence-method-plug-on": method + "on\n",
		})
		for _, node := range nodes {
			c.patch(node, fmt.Sprintf(`{"metadata":{"labels":{"type":%q,%q:"true"}}}`, group, worker))
		}
	}
	c.configure("fence-method-template-rack",
		map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"})
	c.rack = fencingtest.NewRack(c.power, c.nodes()...)
	t.Cleanup(c.rack.Close)
	server := httptest.NewServer(remoteagent.Handler(c.rack))
	t.Cleanup(server.Close)
	c.url = server.URL
	c.history = c.record()
	c.referee()
	return c
}

func (c *cluster) nodes() []string {
	var all []string
	for _, group := range c.groups {
		all = append(all, group...)
	}
	slices.Sort(all)
	return all
}

func (c *cluster) configure(name string, data map[string]string) {
	c.t.Helper()
	_, err := c.client.CoreV1().ConfigMaps(fencer).Create(c.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// power is what a change of its power does to a machine.
func (c *cluster) power(node string, on bool) {
	if on {
		c.boots(node)
	}
	c.dark(node, !on)
}

// dark stops the machine of a node, or starts it. The process of its group may be that of others.
func (c *cluster) dark(node string, dark bool) {
	value := "null"
	if dark {
		value = `"true"`
	}
	c.patch(node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, e2e.DarkLabel, value))
}

// patch patches a node as others do.
func (c *cluster) patch(node, patch string, subresources ...string) {
	_, err := c.client.CoreV1().Nodes().Patch(context.WithoutCancel(c.t.Context()), node, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, subresources...)
	assert.NoError(c.t, err)
}

// condition has a node's status say so.
func (c *cluster) condition(node string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	c.patch(node, fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test",`+
		`"lastTransitionTime":%q}]}}`,
		kind, status, time.Now().UTC().Format(time.RFC3339)), "status")
}

// run runs a pod on each node. Only a fence takes it from the node.
func (c *cluster) run(nodes ...string) {
	c.t.Helper()
	for _, node := range nodes {
		_, err := c.client.CoreV1().Pods(c.namespace).Create(c.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "on-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none.invalid/none"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		require.NoError(c.t, err)
	}
	c.eventually("the pods run", func() bool {
		pods := c.pods()
		return len(pods) == len(nodes) &&
			!slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	})
}

func (c *cluster) pods() []corev1.Pod {
	c.t.Helper()
	list, err := c.client.CoreV1().Pods(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return list.Items
}

// referee sees that no pod is taken from a machine that has never lost its power.
func (c *cluster) referee() {
	c.t.Helper()
	pods := c.client.CoreV1().Pods(c.namespace)
	list, err := pods.List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	var mu sync.Mutex
	var breaches []string
	c.t.Cleanup(func() { // after all has been seen
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(c.t, breaches)
	})
	e2e.Follow(c.t, list.ResourceVersion, pods.Watch, func(e watch.Event) {
		if pod := e.Object.(*corev1.Pod); e.Type == watch.Deleted && c.cuts(pod.Spec.NodeName) == 0 {
			mu.Lock()
			defer mu.Unlock()
			breaches = append(breaches,
				fmt.Sprintf("pod %s is gone, and %s may still run it", pod.Name, pod.Spec.NodeName))
		}
	})
}

// cuts is how often a machine has lost its power.
func (c *cluster) cuts(node string) int {
	cuts := c.rack.Count(node, "power", agent.ActionOff)
	if plug := c.plugs[node]; plug != nil {
		for _, change := range plug.Changes() {
			if !change.On {
				cuts++
			}
		}
	}
	return cuts
}

// start starts a fencer, on one of the nodes. It has checked all machines when this returns.
func (c *cluster) start(host string, limits api.Limits, more ...string) *e2e.Process {
	c.t.Helper()
	program, err := c.cp.Program(c.t.Context(), "../replica")
	require.NoError(c.t, err)
	kubeconfig, err := c.cp.Kubeconfig(c.cp.User("system:serviceaccount:" + fencer + ":" + fencer))
	require.NoError(c.t, err)
	text, err := json.Marshal(limits)
	require.NoError(c.t, err)
	c.replicas++
	name := fmt.Sprintf("%s-%d", fencer, c.replicas)
	p, err := c.cp.Run(e2e.Command{Name: name, Path: program, Args: append([]string{
		"-kubeconfig", kubeconfig, "-namespace", fencer, "-identity", name, "-host", host, "-label", worker, "-rack",
		c.url, "-limits", string(text), "-lease", "15s",
	}, more...)})
	require.NoError(c.t, err)
	var kept sync.WaitGroup
	kept.Go(func() { c.keep(p) })
	c.t.Cleanup(func() {
		kept.Wait()
		_ = p.Kill()
	})
	c.eventually("all machines are checked",
		func() bool { return len(c.where(checked)) == len(c.where(mayBeFenced)) })
	return p
}

// notLeader is the exit code of a fencer that was the leader, and is not any more.
const notLeader = 75

// keep does what a kubelet does when a fencer has ended for that reason: the API server may have
// been too busy to renew its Lease.
func (c *cluster) keep(p *e2e.Process) {
	for {
		exit, err := p.Wait(c.t.Context())
		if err != nil || exit.Code != notLeader {
			return
		}
		assert.NoError(c.t, p.Restart())
	}
}

// stop ends a fencer, and requires that its rights were enough.
func (c *cluster) stop(p *e2e.Process) {
	c.t.Helper()
	if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) { // it may have just lost its leadership
		require.NoError(c.t, err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(c.t, err)
	log, err := os.ReadFile(p.Log())
	require.NoError(c.t, err)
	require.Contains(c.t, []int{0, notLeader}, exit.Code, "%v: %s", exit, log)
	for _, wrong := range []string{"forbidden", "not allowed"} {
		require.NotContains(c.t, string(log), wrong, "the rights of the example are not enough")
	}
}

// where returns the nodes for which it is so.
func (c *cluster) where(so func(*corev1.Node) bool) (names []string) {
	c.t.Helper()
	list, err := c.client.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	for i := range list.Items {
		if so(&list.Items[i]) {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names
}

func ready(n *corev1.Node) bool   { return has(n, corev1.NodeReady) }
func checked(n *corev1.Node) bool { return has(n, "FenceReady") }

// mayBeFenced says that a node has the label.
func mayBeFenced(n *corev1.Node) bool { return n.Labels[worker] != "" }

func has(n *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(n.Status.Conditions,
		func(c corev1.NodeCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// marked says that something of a fence is on a node.
func marked(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1alpha1.TaintFenced || t.Key == corev1.TaintNodeOutOfService
	})
}

// each says that it is so of the newest record of each of these nodes.
func (c *cluster) each(nodes []string, so func(*v1alpha1.NodeFence) bool) bool {
	are := c.history.are(so)
	return !slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(are, node) })
}

// eventually waits until it is so.
func (c *cluster) eventually(what string, so func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			var all strings.Builder
			for node, f := range c.history.last() {
				fmt.Fprintf(&all, "%s: %s %+v\n", node, f.Status.Phase, f.Status.Hold)
			}
			c.t.Fatalf("not within %v: %s; the records say\n%s", patience, what, all.String())
		}
	}
	c.t.Logf("%s: %s", time.Now().Format("05.000"), what)
}

// told returns the nodes about whose fence there is a warning for this reason, with what it says.
func (c *cluster) told(reason string) map[string]string {
	c.t.Helper()
	events, err := c.client.EventsV1().Events("").List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	told := map[string]string{}
	for i := range events.Items {
		e := &events.Items[i]
		if e.Reason == reason && e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "NodeFence" &&
			e.Related != nil {
			told[e.Related.Name] = e.Note
		}
	}
	return told
}

func (c *cluster) nodeFences() dynamic.ResourceInterface {
	c.t.Helper()
	client, err := dynamic.NewForConfig(c.cp.Admin())
	require.NoError(c.t, err)
	return client.Resource(v1alpha1.Resource())
}
