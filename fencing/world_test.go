package fencing_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How the world of tests behaves.
const (
	heartbeat = 10 * time.Second // of kubelets
	silence   = 40 * time.Second // after which a node is not Ready
	boot      = time.Minute      // of a machine

	poll = time.Second / 2 // of tests that wait for something
)

// world is an API server, machines with kubelets, and the rack that they have their power from.
// Plugs have the names of nodes.
type world struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test
	server *apisim.Server
	client kubernetes.Interface
	fences dynamic.ResourceInterface
	rack   *fencingtest.Rack

	mu       sync.Mutex
	machines map[string]*machine
	feeds    map[string]string // plugs that feed machines together, by their names
	unwired  map[string]bool   // plugs that feed nothing any more
	shown    map[string]string // what was written last of whether nodes are Ready, and in which boot

	// of the API server, by kind, namespace and name: Pods, Leases and NodeFences
	stored map[string]*apisim.Object
	judge  func(apisim.Change) // called with every change; may be nil

	// what stands before the API server of controllers, and may answer in its place
	proxy func(*http.Request) *http.Response
	dead  map[string]bool // of those
}

// machine is one that a kubelet runs on.
type machine struct {
	on, cutOff bool
	dumping    bool      // its kernel has stopped, and writes a dump
	up         time.Time // when its kubelet works
	boots      int
	heartbeat  time.Duration // of its kubelet
}

var resources = []apisim.Resource{
	{GroupVersionResource: v1alpha1.Resource(), Kind: "NodeFence", Status: true},
	{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true},
	{GroupVersionResource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"), Kind: "VolumeAttachment"},
}

// settings is the configuration of nodes of the type worker.
const settings = `node_name={{.NodeName}}
isolation=mark-unschedulable
power_management=plug-off plug-on
recovery=mark-schedulable
not_ready_for=10s
power_wait=20s
boot_grace=5m
`

// inWorld runs a test in a bubble of its own, with so many nodes.
func inWorld(t *testing.T, nodes int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := apisim.NewServer(resources...)
		admin := server.Client("admin").Config()
		w := &world{
			t: t, ctx: ctx, server: server, client: kubernetes.NewForConfigOrDie(admin),
			fences: dynamic.NewForConfigOrDie(admin).Resource(v1alpha1.Resource()), machines: map[string]*machine{},
			unwired: map[string]bool{}, shown: map[string]string{},
			stored: map[string]*apisim.Object{},
		}
		server.Observe(w.changed)
		var plugs []string
		for i := range nodes {
			plugs = append(plugs, fmt.Sprintf("n%d", i+1))
		}
		w.rack = fencingtest.NewRack(w.power, append([]string{"port", "feed"}, plugs...)...)
		defer w.rack.Close()
		w.configure("fence-config-type-worker", map[string]string{
			"config.properties":     settings,
			"fence-method-plug-off": "template=fence-method-template-rack\nplug={{.NodeName}}\naction=off\n",
			"fence-method-plug-on":  "template=fence-method-template-rack\nplug={{.NodeName}}\naction=on\n",
		})
		w.configure("fence-method-template-rack",
			map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"})
		for _, name := range plugs {
			w.machines[name] = &machine{on: true, heartbeat: heartbeat}
			w.create(name)
		}
		var kubelets sync.WaitGroup
		for _, name := range plugs {
			kubelets.Go(func() { w.kubelet(ctx, name) })
		}
		kubelets.Go(func() { w.nodeLifecycle(ctx) })
		test(w)
		cancel()
		kubelets.Wait()
	})
}

func (w *world) configure(name string, data map[string]string) {
	_, err := w.client.CoreV1().ConfigMaps("fencing").Create(w.ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) create(node string) {
	w.mu.Lock()
	delete(w.shown, node)
	w.mu.Unlock()
	_, err := w.client.CoreV1().Nodes().Create(w.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{"type": "worker"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: "0"},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: node},
				{Type: corev1.NodeInternalIP, Address: address(node)},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// power is what becomes of a machine whose plug is switched.
func (w *world) power(plug string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[plug]
	if w.unwired[plug] {
		return
	}
	if node, ok := w.feeds[plug]; ok {
		m = w.machines[node]
		w.dead[plug] = !on
		on = false
		for other := range w.feeds {
			on = on || !w.dead[other]
		}
	}
	if m == nil || m.on == on {
		return // a port of a switch, or one feed of several
	}
	m.on, m.dumping = on, false
	if on {
		m.up = time.Now().Add(boot)
		m.boots++
	}
}

// unwire has a machine be fed by something else from now on, and its plug by no machine: it reads
// what it is set to.
func (w *world) unwire(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unwired[node] = true
}

// replace puts another machine in the place of one, fed by something else. Its kubelet takes the
// Node over.
func (w *world) replace(node string) {
	w.unwire(node)
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[node]
	m.boots++
	m.up = time.Now().Add(boot)
}

// runs says whether a machine may run its pods.
func (w *world) runs(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[node]
	return m.on && !m.dumping
}

// cutOff cuts a machine off from the network, or ends that.
func (w *world) cutOff(node string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[node].cutOff = cut
}

// kubelet is that of one node, and its lifecycle after boots.
func (w *world) kubelet(ctx context.Context, node string) {
	leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	var lease *coordinationv1.Lease
	for beat := 0; ctx.Err() == nil; beat++ {
		w.mu.Lock()
		m := *w.machines[node]
		w.mu.Unlock()
		if m.on && !m.cutOff && !m.dumping && !time.Now().Before(m.up) {
			now := metav1.NowMicro()
			var err error
			if lease == nil {
				lease, err = leases.Get(ctx, node, metav1.GetOptions{})
			}
			if err == nil {
				lease.Spec.RenewTime = &now
				lease, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
			}
			if apierrors.IsNotFound(err) {
				lease, err = leases.Create(ctx,
					&coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Name: node},
						Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
					}, metav1.CreateOptions{})
			}
			if err != nil {
				lease = nil
			}
			w.show(ctx, node, corev1.ConditionTrue, fmt.Sprint(m.boots), beat)
		}
		wait(ctx, m.heartbeat)
	}
}

// nodeLifecycle is the controller that finds out which nodes are lost.
func (w *world) nodeLifecycle(ctx context.Context) {
	type seen struct {
		version string
		at      time.Time
	}
	last := map[string]seen{}
	wait(ctx, heartbeat/4) // never at the same moment as kubelets
	for round := 0; ctx.Err() == nil; round++ {
		for _, l := range w.objects("Lease", corev1.NamespaceNodeLease) {
			name, version := l.GetName(), l.GetResourceVersion()
			if last[name].version != version {
				last[name] = seen{version, time.Now()}
			}
			if time.Since(last[name].at) > silence {
				w.show(ctx, name, corev1.ConditionUnknown, "", round)
			}
		}
		wait(ctx, 5*time.Second)
	}
}

// show has a node say whether it is Ready, as far as it does not say so yet. Somebody else may have
// changed that: it is looked at now and then.
func (w *world) show(ctx context.Context, node string, status corev1.ConditionStatus, bootID string, round int) {
	const often = 6
	says := string(status) + " " + bootID
	w.mu.Lock()
	same := w.shown[node] == says
	w.shown[node] = says
	w.mu.Unlock()
	if !same || round%often == 0 {
		w.setReady(ctx, node, status, bootID)
	}
}

func (w *world) setReady(ctx context.Context, node string, status corev1.ConditionStatus, bootID string) {
	_ = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := w.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(n.Status.Conditions,
			func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		if n.Status.Conditions[i].Status == status && (bootID == "" || n.Status.NodeInfo.BootID == bootID) {
			return nil
		}
		n.Status.Conditions[i].Status, n.Status.Conditions[i].LastTransitionTime = status, metav1.Now()
		if bootID != "" {
			n.Status.NodeInfo.BootID = bootID
		}
		_, err = w.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

// setCondition changes a condition of a node.
func (w *world) setCondition(node string, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.t.Helper()
	require.NoError(w.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		n, err := w.client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions,
			func(c corev1.NodeCondition) bool { return c.Type == kind })
		n.Status.Conditions = append(n.Status.Conditions,
			corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
		_, err = w.client.CoreV1().Nodes().UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
		return err
	}))
}

// pod creates one on a node.
func (w *world) pod(name, node string, volumes ...corev1.Volume) {
	_, err := w.client.CoreV1().Pods("ns").Create(w.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Volumes: volumes},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Now()}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// changed keeps what tests and their controllers ask for again and again: requests for it would be
// most of what a test costs.
func (w *world) changed(c apisim.Change) {
	object := c.After
	if object == nil {
		object = c.Before
	}
	name := object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
	w.mu.Lock()
	switch {
	case c.After == nil:
		delete(w.stored, name)
	case slices.Contains([]string{"Pod", "Lease", "NodeFence"}, object.GetKind()):
		w.stored[name] = object
	}
	judge := w.judge
	w.mu.Unlock()
	if judge != nil {
		judge(c)
	}
}

// observe has f called with every change.
func (w *world) observe(f func(apisim.Change)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge = f
}

// objects are those of a kind in a namespace, by their names.
func (w *world) objects(kind, namespace string) (found []*apisim.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, object := range w.stored {
		if strings.HasPrefix(name, kind+"/"+namespace+"/") {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *apisim.Object) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return found
}

func (w *world) pods(node string) (names []string) {
	for _, pod := range w.objects("Pod", "ns") {
		if on, _, _ := unstructured.NestedString(pod.Content(), "spec", "nodeName"); on == node {
			names = append(names, pod.GetName())
		}
	}
	return names
}

// record is that of a node; nil: there is none.
func (w *world) record(node string) *apisim.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored["NodeFence//"+v1alpha1.Name(node)]
}

// fence returns the record of a node; nil: there is none.
func (w *world) fence(node string) *v1alpha1.NodeFence {
	u := w.record(node)
	if u == nil {
		return nil
	}
	f := &v1alpha1.NodeFence{}
	require.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Content(), f))
	return f
}

func (w *world) phase(node string) v1alpha1.Phase {
	u := w.record(node)
	if u == nil {
		return ""
	}
	phase, _, _ := unstructured.NestedString(u.Content(), "status", "phase")
	return v1alpha1.Phase(phase)
}

// variants are those of a test: with the race detector only a share.
func variants[T any](all map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for i, name := range slices.Sorted(maps.Keys(all)) {
			if i%share == 0 && !yield(name, all[name]) {
				return
			}
		}
	}
}

// eventually waits until it is so, for at most so long.
func (w *world) eventually(within time.Duration, what string, so func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > within {
			for node := range w.machines {
				if f := w.fence(node); f != nil {
					w.t.Logf("%s: %+v", node, f.Status)
				}
			}
			w.t.Fatalf("not within %v: %s", within, what)
		}
		wait(w.ctx, poll)
	}
	return time.Since(began)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// agents are the rack, as an agent with parameters.
type agents struct{ *fencingtest.Rack }

func (agents) Metadata(_ context.Context, name string) (agent.Metadata, error) {
	if name != "fence_rack" {
		return agent.Metadata{}, fmt.Errorf("no agent %q: %w", name, fs.ErrNotExist)
	}
	return agent.Metadata{
		Name: name, OffIsProof: true,
		Parameters: []agent.ParameterSpec{
			{Name: "ip", Type: agent.TypeString, Required: true},
			{Name: "plug", Type: agent.TypeString, Required: true},
			{Name: "password", Type: agent.TypeString},
		},
	}, nil
}

// reign is a leadership that a test ends.
type reign struct{ ended atomic.Bool }

func (r *reign) Remaining() time.Duration {
	if r.ended.Load() {
		return 0
	}
	return 10 * time.Second
}

// replica is a controller.
type replica struct {
	*fencing.Controller
	client *apisim.Client
	reign  *reign
	stop   func() // it ends as it should
	kill   func() // nothing is expected of it any more
	result chan error
}

// start starts a controller, and returns when it runs.
func (w *world) start(name string, change func(*fencing.Config), faults ...func(*apisim.Client)) *replica {
	r := &replica{client: w.server.Client(name), reign: &reign{}, result: make(chan error, 1)}
	for _, f := range faults {
		f(r.client)
	}
	c := fencing.Config{
		Namespace: "fencing", OutsideCluster: true, Leadership: r.reign, Agents: agents{w.rack},
		Limits: api.Limits{Observation: 20 * time.Second},
		Logger: zaptest.NewLogger(w.t, zaptest.Level(zap.DebugLevel)).Named(name),
	}
	if change != nil {
		change(&c)
	}
	way := r.client.Config()
	way.Transport = through{w, way.Transport}
	var err error
	r.Controller, err = fencing.New(kubernetes.NewForConfigOrDie(way), dynamic.NewForConfigOrDie(way), c)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.ctx)
	r.stop = func() {
		cancel()
		require.NoError(w.t, <-r.result)
	}
	r.kill = func() {
		cancel()
		assert.NotErrorIs(w.t, <-r.result, fencing.ErrOwnHost)
	}
	go func() { r.result <- r.Run(ctx) }()
	return r
}

// through is the way to the API server.
type through struct {
	w *world
	http.RoundTripper
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.w.proxy != nil {
		if answer := t.w.proxy(r); answer != nil {
			answer.Request = r
			return answer, nil
		}
	}
	return t.RoundTripper.RoundTrip(r)
}

// answer is one of a proxy.
func answer(code int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {contentType}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// referee sees that no pod and no VolumeAttachment is deleted whose machine runs.
func (w *world) referee() (breaches func() []string) {
	var mu sync.Mutex
	var all []string
	w.observe(func(c apisim.Change) {
		if c.After != nil || c.Before.GetKind() != "Pod" && c.Before.GetKind() != "VolumeAttachment" {
			return
		}
		node, _, _ := unstructured.NestedString(c.Before.Content(), "spec", "nodeName")
		if w.runs(node) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Sprintf("%s deleted %s while %s was on", c.Client, c.Before.GetName(), node))
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// requireFencedOnce says that the machine of a node has lost its power once, is on, and nothing is
// left on the node.
func (w *world) requireFencedOnce(node string) {
	w.t.Helper()
	require.Equal(w.t, 1, w.rack.Count(node, "power", agent.ActionOff), "power went off so often: %v",
		w.rack.Events())
	require.Equal(w.t, 1, w.rack.Count(node, "command", agent.ActionOff), "%v", w.rack.Events())
	require.True(w.t, w.rack.On(node))
	n, err := w.client.CoreV1().Nodes().Get(w.ctx, node, metav1.GetOptions{})
	require.NoError(w.t, err)
	require.Empty(w.t, n.Spec.Taints)
	require.Empty(w.t, w.pods(node))
}
