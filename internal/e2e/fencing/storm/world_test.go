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
	"k8s.io/apimachinery/pkg/runtime"
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

// world is a control plane, whose nodes are machines that have their power from a rack. What the
// nodes of a group have in common fails with its process.
type world struct {
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

// newWorld returns one with so many nodes in each group.
func newWorld(t *testing.T, sizes map[string]int) *world {
	t.Helper()
	w := &world{t: t, groups: map[string][]string{}, boots: func(string) {}}
	for group, size := range sizes {
		for i := range size {
			w.groups[group] = append(w.groups[group], fmt.Sprintf("%s-%d", group, i))
		}
	}
	w.cp = e2e.Start(t, e2e.Options{ControllerManager: true, Groups: w.groups})
	var err error
	w.client, err = kubernetes.NewForConfig(w.cp.Admin())
	require.NoError(t, err)
	w.namespace, err = w.cp.Namespace(t.Context(), "storm")
	require.NoError(t, err)
	for _, manifest := range []string{
		"fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml",
		"examples/fencer/rbac.yaml",
	} {
		require.NoError(t, w.cp.Apply(t.Context(), filepath.Join(root, manifest)))
	}
	for group, nodes := range w.groups {
		wait := "5s"
		if group == rest {
			wait = "10m"
		}
		w.configure("fence-config-type-"+group, map[string]string{
			"config.properties": fmt.Sprintf(settings, wait), "fence-method-plug-off": method + "off\n",
			"fence-method-plug-on": method + "on\n",
		})
		for _, node := range nodes {
			w.patch(node, fmt.Sprintf(`{"metadata":{"labels":{"type":%q,%q:"true"}}}`, group, worker))
		}
	}
	w.configure("fence-method-template-rack",
		map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"})
	w.rack = fencingtest.NewRack(w.power, w.nodes()...)
	t.Cleanup(w.rack.Close)
	server := httptest.NewServer(remoteagent.Handler(w.rack))
	t.Cleanup(server.Close)
	w.url = server.URL
	w.history = w.record()
	w.referee()
	return w
}

func (w *world) nodes() []string {
	var all []string
	for _, group := range w.groups {
		all = append(all, group...)
	}
	slices.Sort(all)
	return all
}

func (w *world) configure(name string, data map[string]string) {
	w.t.Helper()
	_, err := w.client.CoreV1().ConfigMaps(fencer).Create(w.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// power is what a change of its power does to a machine.
func (w *world) power(node string, on bool) {
	if on {
		w.boots(node)
	}
	w.dark(node, !on)
}

// dark stops the machine of a node, or starts it. The process of its group may be that of others.
func (w *world) dark(node string, dark bool) {
	value := "null"
	if dark {
		value = `"true"`
	}
	w.patch(node, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, e2e.DarkLabel, value))
}

// patch patches a node as others do.
func (w *world) patch(node, patch string, subresources ...string) {
	_, err := w.client.CoreV1().Nodes().Patch(context.WithoutCancel(w.t.Context()), node, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, subresources...)
	assert.NoError(w.t, err)
}

// condition has a node's status say so.
func (w *world) condition(node string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.patch(node, fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":%q,"reason":"Test",`+
		`"lastTransitionTime":%q}]}}`,
		kind, status, time.Now().UTC().Format(time.RFC3339)), "status")
}

// run runs a pod on each node. Only a fence takes it from the node.
func (w *world) run(nodes ...string) {
	w.t.Helper()
	for _, node := range nodes {
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "on-" + node},
			Spec: corev1.PodSpec{
				NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "none.invalid/none"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		require.NoError(w.t, err)
	}
	w.eventually("the pods run", func() bool {
		pods := w.pods()
		return len(pods) == len(nodes) &&
			!slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	})
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	return list.Items
}

// referee sees that no pod is taken from a machine that has never lost its power.
func (w *world) referee() {
	w.t.Helper()
	pods := w.client.CoreV1().Pods(w.namespace)
	list, err := pods.List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	var mu sync.Mutex
	var breaches []string
	w.t.Cleanup(func() { // after all has been seen
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(w.t, breaches)
	})
	w.follow(list.ResourceVersion, pods.Watch, func(object runtime.Object) {
		if pod := object.(*corev1.Pod); w.cuts(pod.Spec.NodeName) == 0 {
			mu.Lock()
			defer mu.Unlock()
			breaches = append(breaches,
				fmt.Sprintf("pod %s is gone, and %s may still run it", pod.Name, pod.Spec.NodeName))
		}
	}, watch.Deleted)
}

// cuts is how often a machine has lost its power.
func (w *world) cuts(node string) int {
	cuts := w.rack.Count(node, "power", agent.ActionOff)
	if plug := w.plugs[node]; plug != nil {
		for _, change := range plug.Changes() {
			if !change.On {
				cuts++
			}
		}
	}
	return cuts
}

// start starts a fencer, on one of the nodes. It has checked all machines when this returns.
func (w *world) start(host string, limits api.Limits, more ...string) *e2e.Process {
	w.t.Helper()
	program, err := w.cp.Program(w.t.Context(), "../replica")
	require.NoError(w.t, err)
	kubeconfig, err := w.cp.Kubeconfig(w.cp.User("system:serviceaccount:" + fencer + ":" + fencer))
	require.NoError(w.t, err)
	text, err := json.Marshal(limits)
	require.NoError(w.t, err)
	w.replicas++
	name := fmt.Sprintf("%s-%d", fencer, w.replicas)
	p, err := w.cp.Run(e2e.Command{Name: name, Path: program, Args: append([]string{
		"-kubeconfig", kubeconfig, "-namespace", fencer, "-identity", name, "-host", host, "-label", worker, "-rack",
		w.url, "-limits", string(text), "-lease", "15s",
	}, more...)})
	require.NoError(w.t, err)
	var kept sync.WaitGroup
	kept.Go(func() { w.keep(p) })
	w.t.Cleanup(func() {
		kept.Wait()
		_ = p.Kill()
	})
	w.eventually("all machines are checked",
		func() bool { return len(w.where(checked)) == len(w.where(mayBeFenced)) })
	return p
}

// notLeader is the exit code of a fencer that was the leader, and is not any more.
const notLeader = 75

// keep does what a kubelet does when a fencer has ended for that reason: the API server may have
// been too busy to renew its Lease.
func (w *world) keep(p *e2e.Process) {
	for {
		exit, err := p.Wait(w.t.Context())
		if err != nil || exit.Code != notLeader {
			return
		}
		assert.NoError(w.t, p.Restart())
	}
}

// stop ends a fencer, and requires that its rights were enough.
func (w *world) stop(p *e2e.Process) {
	w.t.Helper()
	if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) { // it may have just lost its leadership
		require.NoError(w.t, err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(w.t, err)
	log, err := os.ReadFile(p.Log())
	require.NoError(w.t, err)
	require.Contains(w.t, []int{0, notLeader}, exit.Code, "%v: %s", exit, log)
	for _, wrong := range []string{"forbidden", "not allowed"} {
		require.NotContains(w.t, string(log), wrong, "the rights of the example are not enough")
	}
}

// where returns the nodes for which it is so.
func (w *world) where(so func(*corev1.Node) bool) (names []string) {
	w.t.Helper()
	list, err := w.client.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
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
func (w *world) each(nodes []string, so func(*v1alpha1.NodeFence) bool) bool {
	are := w.history.are(so)
	return !slices.ContainsFunc(nodes, func(node string) bool { return !slices.Contains(are, node) })
}

// eventually waits until it is so.
func (w *world) eventually(what string, so func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			var all strings.Builder
			for node, f := range w.history.last() {
				fmt.Fprintf(&all, "%s: %s %+v\n", node, f.Status.Phase, f.Status.Hold)
			}
			w.t.Fatalf("not within %v: %s; the records say\n%s", patience, what, all.String())
		}
	}
	w.t.Logf("%s: %s", time.Now().Format("05.000"), what)
}

// told returns the nodes about whose fence there is a warning for this reason, with what it says.
func (w *world) told(reason string) map[string]string {
	w.t.Helper()
	events, err := w.client.EventsV1().Events("").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
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

func (w *world) nodeFences() dynamic.ResourceInterface {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.cp.Admin())
	require.NoError(w.t, err)
	return client.Resource(v1alpha1.Resource())
}
