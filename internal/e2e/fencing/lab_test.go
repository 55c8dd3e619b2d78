package fencing_test

import (
	"context"
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
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
)

// example is where the manifests are that users copy.
const example = "../../../examples/fencer"

// lab is a machine that has its power from a rack, and fencers that may switch it.
type lab struct {
	*world
	fences    dynamic.ResourceInterface
	rack      *fencingtest.Rack
	url       string // of the rack
	machine   string // and its plug, and its node
	namespace string // of the fencers, and the name of everything that they have
	label     string // of the nodes that they may fence: the machine's and the spare one
	replicas  int
	program   string // of the next fencer; empty: that of this version

	mu       sync.Mutex
	boots    bool     // there is no machine, but the node is Ready when it has power again
	gone     bool     // guarded by mu: the node was deleted
	lost     bool     // guarded by mu
	offs     int      // guarded by mu, of the machine when it was lost
	breaches []string // guarded by mu
}

const settings = `node_name={{.NodeName}}
isolation=mark-unschedulable
power_management=plug-off plug-on
recovery=mark-schedulable
not_ready_for=1s
power_wait=1s
boot_grace=1m
`

// method is of the configuration of a machine.
const method = "template=fence-method-template-rack\nplug={{.NodeName}}\nsettle=1s\naction="

// machines are processes of KWOK. A test that fences one has it for itself meanwhile.
var (
	machines = []string{"m1", "m2", "m3", "m4", "m5", "m6"}
	free     = func() chan string {
		free := make(chan string, len(machines))
		for _, name := range machines {
			free <- name
		}
		return free
	}()
)

// newLab returns a lab with one of the machines. Without power it is suspended, or killed if it
// must boot fresh.
func newLab(t *testing.T, fresh bool) *lab {
	t.Helper()
	machine := <-free
	t.Cleanup(func() { free <- machine })
	process := shared.Node(machine)
	lab := makeLab(t, machine, func(_ string, on bool) {
		do := map[bool]func() error{true: process.Resume, false: process.Pause}
		if fresh {
			do = map[bool]func() error{true: process.Restart, false: process.Kill}
		}
		assert.NoError(t, do[on]())
	})
	t.Cleanup(func() {
		if t.Failed() {
			assert.NoError(t, process.Restart())
		}
	})
	return lab
}

// newPaperLab returns a lab with a node without a machine: it is Ready when the test says so.
func newPaperLab(t *testing.T) *lab {
	t.Helper()
	w := newWorld(t)
	l := makeLab(t, w.node().Name, nil)
	l.setReady(corev1.ConditionTrue)
	l.live()
	return l
}

// live renews the node's Lease for as long as the node is not lost: however long a test takes until
// then, the control plane must not lose it before.
func (l *lab) live() {
	l.t.Helper()
	ctx := l.t.Context()
	var living sync.WaitGroup
	living.Go(func() {
		for ctx.Err() == nil {
			l.mu.Lock() // or the node might be lost before its Lease is renewed
			if !l.lost {
				if err := l.tryToRenew(); ctx.Err() == nil {
					assert.NoError(l.t, err)
				}
			}
			l.mu.Unlock()
			_ = pause(ctx, time.Second)
		}
	})
	l.t.Cleanup(living.Wait)
}

func makeLab(t *testing.T, machine string, powered func(plug string, on bool)) *lab {
	t.Helper()
	l := &lab{world: newWorld(t), fences: nodeFences(t), machine: machine}
	l.namespace = l.world.namespace + "-fencer"
	l.label = l.namespace
	l.rack = fencingtest.NewRack(powered, machine)
	server := httptest.NewServer(remoteagent.Handler(l.rack))
	l.url = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(l.rack.Close)
	// Each machine is in a zone of its own, so that the loss of several is not taken for that of
	// the network.
	l.patchNode(machine,
		fmt.Sprintf(`{"metadata":{"labels":{%q:"true",%q:%q}}}`, l.label, corev1.LabelTopologyZone, machine))
	l.patchNode(spareNode, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, l.label))
	// Nor has this lab's fencer checked it yet: another one may have.
	_, err := l.client.CoreV1().Nodes().Patch(t.Context(), machine, types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"FenceReady","$patch":"delete"}]}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	l.permit()
	l.configure("fence-config-node-"+machine, map[string]string{
		"config.properties": settings, "fence-method-plug-off": method + "off\n",
		"fence-method-plug-on": method + "on\n",
	})
	l.configure("fence-method-template-rack",
		map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"})
	t.Cleanup(l.forget)
	l.watch()
	return l
}

// permit grants the fencers of this lab what the example's manifest says, and no more.
func (l *lab) permit() {
	l.t.Helper()
	manifest, err := os.ReadFile(filepath.Join(example, "rbac.yaml"))
	require.NoError(l.t, err)
	file := filepath.Join(l.t.TempDir(), "rbac.yaml")
	require.NoError(l.t, os.WriteFile(file, []byte(strings.ReplaceAll(string(manifest), "fencer", l.namespace)), 0o600))
	require.NoError(l.t, shared.Apply(l.t.Context(), file))
}

func (l *lab) configure(name string, data map[string]string) {
	l.t.Helper()
	_, err := l.client.CoreV1().ConfigMaps(l.namespace).Create(l.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(l.t, err)
}

// setting changes one of the machine's. It takes effect with the next fence.
func (l *lab) setting(from, to string) {
	l.t.Helper()
	maps := l.client.CoreV1().ConfigMaps(l.namespace)
	m, err := maps.Get(l.t.Context(), "fence-config-node-"+l.machine, metav1.GetOptions{})
	require.NoError(l.t, err)
	m.Data["config.properties"] = strings.ReplaceAll(m.Data["config.properties"], from, to)
	_, err = maps.Update(l.t.Context(), m, metav1.UpdateOptions{})
	require.NoError(l.t, err)
}

// user is what the fencers are to the API server.
func (l *lab) user() *rest.Config {
	return shared.User("system:serviceaccount:" + l.namespace + ":" + l.namespace)
}

// lostLeadership is how a fencer ends that does not lead any more.
const lostLeadership = 75

// start starts a fencer on the spare node. It is restarted when it has lost its leadership, as a
// kubelet would: a machine that many tests share may be too slow for a leader to renew in time.
func (l *lab) start(env ...string) *e2e.Process {
	l.t.Helper()
	return l.keep(l.startBy(l.user(), nil, env...))
}

// keep restarts a fencer whenever it has lost its leadership.
func (l *lab) keep(p *e2e.Process) *e2e.Process {
	ctx := l.t.Context()
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			if exit, err := p.Wait(ctx); err != nil || exit.Code != lostLeadership || p.Restart() != nil {
				return
			}
		}
	})
	l.t.Cleanup(watching.Wait)
	return p
}

// startBy starts one whose requests take a way of their own, and whose lines are heard.
func (l *lab) startBy(config *rest.Config, heard func(line string), env ...string) *e2e.Process {
	l.t.Helper()
	program := l.program
	if program == "" {
		var err error
		program, err = shared.Program(l.t.Context(), "./replica")
		require.NoError(l.t, err)
	}
	kubeconfig, err := shared.Kubeconfig(config)
	require.NoError(l.t, err)
	l.replicas++
	name := fmt.Sprintf("%s-%d", l.namespace, l.replicas)
	p, err := shared.Run(e2e.Command{
		Name: name, Path: program, Env: env, OnLine: heard,
		Args: []string{
			"-kubeconfig", kubeconfig, "-namespace", l.namespace, "-identity", name, "-host", spareNode, "-machine",
			l.machine, "-label", l.label, "-rack", l.url,
			"-effects", filepath.Join(l.t.TempDir(), "effects"),
		},
	})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// stop ends a fencer, unless it has just lost its leadership, and requires that its rights were
// enough.
func (l *lab) stop(p *e2e.Process) {
	l.t.Helper()
	if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(l.t, err)
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(l.t, err)
	require.Contains(l.t, []int{0, lostLeadership}, exit.Code, "%v: %s", exit, l.log(p))
	for _, wrong := range []string{"forbidden", "not allowed", "rights are missing: grant"} {
		require.NotContains(l.t, l.log(p), wrong, "the rights of the example are not enough")
	}
}

func (l *lab) log(p *e2e.Process) string {
	l.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(l.t, err)
	return string(text)
}

// effects are what a fencer has done to the world.
func (l *lab) effects(p *e2e.Process) (all []string) {
	for line := range strings.Lines(l.log(p)) {
		if _, what, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "effect ") {
			all = append(all, what)
		}
	}
	return all
}

// lose stops the machine at once, and has the control plane know. It has power still.
func (l *lab) lose() {
	l.t.Helper()
	l.mu.Lock()
	l.lost, l.offs = true, l.cuts()
	l.mu.Unlock()
	if process := shared.Node(l.machine); process != nil {
		require.NoError(l.t, process.Pause())
	}
	l.setReady(corev1.ConditionUnknown)
}

// setReady has the node's status say so, and if it is Ready, its Lease.
func (l *lab) setReady(status corev1.ConditionStatus) {
	l.t.Helper()
	l.patchNode(l.machine, fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test",`+
		`"lastTransitionTime":%q}]}}`,
		status, time.Now().UTC().Format(time.RFC3339)), "status")
	if status == corev1.ConditionTrue {
		l.renew()
	}
}

// renew renews the node's Lease, as a kubelet does.
func (l *lab) renew() {
	l.t.Helper()
	require.NoError(l.t, l.tryToRenew())
}

func (l *lab) tryToRenew() error {
	now := metav1.NowMicro()
	leases := l.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(l.t.Context(),
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: l.machine},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
		}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = leases.Patch(l.t.Context(), l.machine, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)), metav1.PatchOptions{})
	}
	return err
}

// cuts is how often the machine has lost its power.
func (l *lab) cuts() int { return l.rack.Count(l.machine, "power", agent.ActionOff) }

// commands is how often a device was told to.
func (l *lab) commands(action agent.Action) int {
	return l.rack.Count(l.machine, "command", action)
}

// checked waits until a fencer has read the machine's plug.
func (l *lab) checked() {
	l.t.Helper()
	l.eventually("the machine's devices are checked", func() bool {
		for _, c := range l.getNode(l.machine).Status.Conditions {
			if c.Type == "FenceReady" && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

// eventually waits until it is so.
func (l *lab) eventually(what string, so func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			var status any
			if f := l.record(); f != nil {
				status = f.Status
			}
			node, err := l.client.CoreV1().Nodes().Get(l.t.Context(), l.machine, metav1.GetOptions{})
			l.t.Fatalf("not within %v: %s; of the node (error: %v) the taints are %+v and the conditions %+v; "+
				"the record's status is %+v", patience, what, err, node.Spec.Taints, node.Status.Conditions, status)
		}
	}
}

// record is the machine's; nil: there is none.
func (l *lab) record() *v1alpha1.NodeFence {
	l.t.Helper()
	u, err := l.fences.Get(l.t.Context(), v1alpha1.Name(l.machine), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(l.t, err)
	f := &v1alpha1.NodeFence{}
	require.NoError(l.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f))
	return f
}

func (l *lab) phase() v1alpha1.Phase {
	l.t.Helper()
	if f := l.record(); f != nil {
		return f.Status.Phase
	}
	return ""
}

func (l *lab) reaches(phase v1alpha1.Phase) {
	l.t.Helper()
	l.eventually("the fence is "+string(phase), func() bool { return l.phase() == phase })
}

// annotate does what an admin does.
func (l *lab) annotate(key, value string) {
	l.t.Helper()
	_, err := l.fences.Patch(l.t.Context(), v1alpha1.Name(l.machine), types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	require.NoError(l.t, err)
}

// forget removes what fencers have left behind of the machine's record, once none runs any more.
func (l *lab) forget() {
	ctx := context.WithoutCancel(l.t.Context())
	name := v1alpha1.Name(l.machine)
	_, err := l.fences.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		assert.NoError(l.t, err)
	}
	if err := l.fences.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		assert.NoError(l.t, err)
	}
	err = l.editTaints(l.machine, func(taints []corev1.Taint) []corev1.Taint {
		// or one test that fails would fail those with the same machine
		return slices.DeleteFunc(taints, func(taint corev1.Taint) bool {
			return taint.Key == v1alpha1.TaintFenced || taint.Key == corev1.TaintNodeOutOfService
		})
	})
	if !apierrors.IsNotFound(err) {
		assert.NoError(l.t, err)
	}
}

// database makes a StatefulSet whose pod runs on the machine, and may run on the spare node. The pod
// is evicted once its node has been unreachable for this long.
func (l *lab) database(stays time.Duration) {
	l.t.Helper()
	labels := map[string]string{"app": "db"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	template.Spec.NodeSelector = map[string]string{l.label: "true"}
	template.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{l.machine}},
				}},
			}},
		},
	}
	template.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: ptr.To(int64(stays.Seconds())),
	}}
	_, err := l.client.AppsV1().StatefulSets(l.world.namespace).Create(l.t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec:       appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(l.t, err)
	l.home()
}

// home waits until the control plane trusts the machine, and the pod runs on it. Until the node
// controller has removed the taints of a loss before, which it does some seconds after the node is
// Ready again, pods are scheduled elsewhere or evicted: a pod that runs elsewhere is moved.
func (l *lab) home() {
	l.t.Helper()
	l.eventually("the pod runs on the machine", func() bool {
		node, pod := l.getNode(l.machine), l.first("db-0")
		switch {
		case !isReady(node) || node.Spec.Unschedulable || len(node.Spec.Taints) > 0:
			return false
		case pod == nil || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning:
			return false
		case pod.Spec.NodeName != l.machine:
			l.world.forget("db-0")
			return false
		}
		return true
	})
}

// watch referees: a pod of the lost machine must not be taken from it before it has lost its power.
func (l *lab) watch() {
	l.t.Helper()
	pods := l.client.CoreV1().Pods(l.world.namespace)
	list, err := pods.List(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	e2e.Follow(l.t, list.ResourceVersion, pods.Watch, func(e watch.Event) {
		pod := e.Object.(*corev1.Pod)
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.Type == watch.Deleted && pod.Spec.NodeName == l.machine && l.lost && l.cuts() == l.offs {
			l.breaches = append(l.breaches,
				fmt.Sprintf("%v: pod %s is gone, and %s may still run it", time.Now(), pod.Name, l.machine))
		}
	})
}

// back says that the machine works again: the test lets its kubelet do what it wants.
func (l *lab) back() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = false
}

func (l *lab) requireNoBreach() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l.t, l.breaches)
}

// requireRecovered requires that the machine has lost its power once since it was lost, works, and
// that its pod runs on the other node.
func (l *lab) requireRecovered() {
	l.t.Helper()
	l.mu.Lock()
	offs := l.offs
	l.mu.Unlock()
	assert.Equal(l.t, offs+1, l.cuts(), "%+v", l.rack.Events())
	assert.Equal(l.t, offs+1, l.commands(agent.ActionOff), "%+v", l.rack.Events())
	assert.True(l.t, l.rack.On(l.machine))
	assert.True(l.t, l.ready(l.machine))
	l.requireUnmarked()
	l.requireOn(spareNode, "db-0")
	l.requireNoBreach()
}

// requireUnmarked requires that nothing of a fence is left on the node.
func (l *lab) requireUnmarked() {
	l.t.Helper()
	for _, taint := range l.getNode(l.machine).Spec.Taints {
		assert.NotContains(l.t, []string{v1alpha1.TaintFenced, corev1.TaintNodeOutOfService}, taint.Key)
	}
}
