package memory_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
)

const (
	machine, spare = "machine", "spare" // nodes, the first with a plug
	fencer         = "fencer"           // namespace of fencers, and label of the nodes
)

// fence is a node that may be fenced, the plug of its machine, and the referee.
type fence struct {
	*cluster
	rack   *rack
	booted atomic.Bool // the machine, after its plug was off

	mu       sync.Mutex
	breaches []string // guarded by mu
}

// rack knows when a fencer has read that a plug is off.
type rack struct {
	*fencingtest.Rack
	offRead atomic.Bool
}

func (r *rack) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	power, err := r.Rack.Power(ctx, target)
	if power == agent.PowerOff {
		r.offRead.Store(true)
	}
	return power, err
}

func newFence(t *testing.T) *fence {
	t.Helper()
	f := &fence{cluster: newCluster(t,
		apisim.Resource{GroupVersionResource: v1alpha1.Resource(), Kind: "NodeFence", Status: true},
		apisim.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true,
		},
		apisim.Resource{
			GroupVersionResource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"),
			Kind:                 "VolumeAttachment",
		},
	)}
	f.rack = &rack{Rack: fencingtest.NewRack(func(_ string, on bool) {
		if on { // its kubelet works again
			f.booted.Store(true)
		}
	}, machine)}
	t.Cleanup(f.rack.Close)
	for _, name := range []string{machine, spare} {
		_, err := f.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{fencer: "true", corev1.LabelTopologyZone: name},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		f.report(name, corev1.ConditionTrue)
	}
	for name, data := range map[string]map[string]string{
		"fence-config-node-" + machine: {
			"config.properties": "node_name={{.NodeName}}\nisolation=mark-unschedulable\n" +
				"power_management=plug-off plug-on\nrecovery=mark-schedulable\n" +
				"not_ready_for=1s\npower_wait=1s\nboot_grace=10m\n",
			"fence-method-plug-off": "template=fence-method-template-rack\nplug={{.NodeName}}\nsettle=1s\naction=off\n",
			"fence-method-plug-on":  "template=fence-method-template-rack\nplug={{.NodeName}}\nsettle=1s\naction=on\n",
		},
		"fence-method-template-rack": {"template.properties": "agent_name=fence_rack\nip=rack\n"},
	} {
		_, err := f.client.CoreV1().ConfigMaps(fencer).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	f.server.Observe(f.see)
	ctx, cancel := context.WithCancel(t.Context())
	var living sync.WaitGroup
	living.Go(func() { // kubelets
		for ; ctx.Err() == nil; pause(ctx, time.Second) {
			f.report(spare, corev1.ConditionTrue)
			if f.booted.Load() {
				f.report(machine, corev1.ConditionTrue)
			}
		}
	})
	t.Cleanup(living.Wait)
	t.Cleanup(cancel)
	return f
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// see judges every change: a Pod of the machine is not released before its plug was read to be off.
func (f *fence) see(c apisim.Change) {
	if c.Before == nil || c.Before.GetKind() != "Pod" || f.rack.offRead.Load() {
		return
	}
	node, _, _ := unstructured.NestedString(c.Before.Content(), "spec", "nodeName")
	if node == machine && (c.After == nil || c.After.GetDeletionTimestamp() != nil) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.breaches = append(f.breaches, c.Client+" released Pod "+c.Before.GetName())
	}
}

// report sets the Ready condition of a node, as its kubelet or the node controller would.
func (f *fence) report(node string, ready corev1.ConditionStatus) {
	ctx, now := context.WithoutCancel(f.t.Context()), metav1.NowMicro()
	_, err := f.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","lastTransitionTime":%q}]}}`,
		ready, now.UTC().Format(time.RFC3339)), metav1.PatchOptions{}, "status")
	assert.NoError(f.t, err)
	if ready != corev1.ConditionTrue {
		return
	}
	leases := f.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = leases.Patch(ctx, node, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)), metav1.PatchOptions{})
	}
	assert.NoError(f.t, err)
}

func (f *fence) pod(name, node string) {
	f.t.Helper()
	_, err := f.client.CoreV1().Pods(namespace).Create(f.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main"}}},
	}, metav1.CreateOptions{})
	require.NoError(f.t, err)
}

func (f *fence) node() *corev1.Node {
	f.t.Helper()
	node, err := f.client.CoreV1().Nodes().Get(f.t.Context(), machine, metav1.GetOptions{})
	require.NoError(f.t, err)
	return node
}

// A node is lost, and the fencer is killed when it has just cut its power. Another one continues: the
// machine loses its power once, its Pods are released when that is proved, and it comes back.
func TestFencing(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	devices := httptest.NewServer(remoteagent.Handler(f.rack))
	t.Cleanup(func() {
		_ = f.group.Close() // its clients
		devices.Close()
	})
	launch := func(name string, env ...string) *e2e.Process {
		return f.start("replica", e2e.Command{Name: name, Env: env, Args: []string{
			"-kubeconfig", f.kubeconfig, "-namespace", fencer, "-identity", name, "-host", spare, "-label", fencer,
			"-rack", devices.URL, "-lease", lease.String(), "-timeout", (lease / 2).Round(time.Second).String(),
		}})
	}
	f.pod("one", machine)
	f.pod("two", machine)
	f.pod("elsewhere", spare)
	dying := launch("a", "DIE_AFTER=switch off")
	f.eventually(func() bool {
		for _, c := range f.node().Status.Conditions {
			if c.Type == "FenceReady" && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}, "the plug is checked")
	successor := launch("b")

	f.report(machine, corev1.ConditionUnknown)
	require.Equal(t, syscall.SIGKILL, f.requireEnd(dying).Signal)
	require.Equal(t, 1, f.rack.Count(machine, "power", agent.ActionOff))

	fences, err := dynamic.NewForConfig(f.server.Client("referee").Config())
	require.NoError(t, err)
	f.eventually(func() bool {
		record, err := fences.Resource(v1alpha1.Resource()).Get(t.Context(), v1alpha1.Name(machine),
			metav1.GetOptions{})
		if err != nil {
			return false
		}
		phase, _, _ := unstructured.NestedString(record.Object, "status", "phase")
		return phase == string(v1alpha1.PhaseFinal)
	}, "the fence has ended")
	require.NoError(t, successor.Terminate())
	f.requireExit(successor, 0)

	require.NoError(t, f.group.Close())
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Empty(t, f.breaches, "before the plug was read to be off")
	assert.Equal(t, 1, f.rack.Count(machine, "command", agent.ActionOff), "%+v", f.rack.Events())
	assert.Equal(t, 1, f.rack.Count(machine, "power", agent.ActionOff), "%+v", f.rack.Events())
	assert.True(t, f.rack.On(machine))
	assert.Empty(t, f.node().Spec.Taints)
	pods, err := f.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var left []string
	for _, pod := range pods.Items {
		left = append(left, pod.Name)
	}
	assert.Equal(t, "elsewhere", strings.Join(left, " "))
}
