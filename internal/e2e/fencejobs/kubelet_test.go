package fencejobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	patience = time.Minute // for what has no bound of its own
	poll     = 20 * time.Millisecond
	beat     = 2 * time.Second // of nodes
)

// kubelet is a node, and runs its pods: the program of Jobs' containers, with the files that the
// volumes would hold.
type kubelet struct {
	t       *testing.T
	client  kubernetes.Interface
	node    string
	program string
	dir     string
	ctx     context.Context //nolint:containedctx // it lives as long as the test
	running sync.WaitGroup

	status sync.Mutex // orders what is said of the node
	lost   bool       // it does not renew its Lease; guarded by status

	mu    sync.Mutex
	hold  chan struct{} // nil, or closed: pods start
	cut   bool          // it reports nothing about pods, and does not see that they are deleted
	known map[types.UID]bool
	logs  []string // of pods
	ended int      // pods
}

// newKubelet makes a node that is Ready, with a label.
func newKubelet(t *testing.T, client kubernetes.Interface, label string) *kubelet {
	t.Helper()
	program, err := shared.Program(t.Context(), "github.com/bellwether-k8s/bellwether/fencing/fencejobs/fencejob")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	k := &kubelet{t: t, client: client, program: program, dir: t.TempDir(), ctx: ctx, known: map[types.UID]bool{}}
	node, err := client.CoreV1().Nodes().Create(ctx,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			GenerateName: label + "-",
			Labels:       map[string]string{label: "true"},
		}}, metav1.CreateOptions{})
	require.NoError(t, err)
	k.node = node.Name
	k.beat()
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: resource.MustParse("50"),
	}
	node.Status.Capacity = node.Status.Allocatable
	node.ResourceVersion = "" // the controller manager has taken notice of it
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	require.NoError(t, err)
	k.running.Go(k.live)
	t.Cleanup(func() {
		cancel()
		k.running.Wait()
		assert.NoError(t, client.CoreV1().Nodes().Delete(context.WithoutCancel(ctx), k.node, metav1.DeleteOptions{}))
	})
	return k
}

func (k *kubelet) beat() {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: k.node},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
	}
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(k.ctx, lease, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = leases.Patch(k.ctx, k.node, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro)), metav1.PatchOptions{})
	}
	k.good(err)
}

// power loses the node, or has it back.
func (k *kubelet) power(on bool) {
	k.status.Lock()
	defer k.status.Unlock()
	k.lost = !on
	if on {
		k.beat()
		k.say(corev1.ConditionTrue)
	} else {
		k.say(corev1.ConditionUnknown)
	}
}

// renew renews the Lease, and is Ready again when the control plane has lost it for a moment, as on
// a busy machine.
func (k *kubelet) renew() {
	k.status.Lock()
	defer k.status.Unlock()
	if k.lost {
		return
	}
	k.beat()
	node, err := k.client.CoreV1().Nodes().Get(k.ctx, k.node, metav1.GetOptions{})
	if !k.good(err) || k.ctx.Err() != nil {
		return
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			k.say(corev1.ConditionTrue)
		}
	}
}

// say has the node's status say so.
func (k *kubelet) say(ready corev1.ConditionStatus) {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test",`+
		`"lastTransitionTime":%q,"lastHeartbeatTime":%[2]q}]}}`,
		ready, time.Now().UTC().Format(time.RFC3339))
	_, err := k.client.CoreV1().Nodes().Patch(k.ctx, k.node, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	k.good(err)
}

// good reports an error, unless the test has ended.
func (k *kubelet) good(err error) bool {
	return k.ctx.Err() != nil || assert.NoError(k.t, err)
}

func (k *kubelet) live() {
	for last := time.Now(); k.ctx.Err() == nil; k.pause(poll) {
		if time.Since(last) > beat {
			last = time.Now()
			k.renew()
		}
		pods, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(k.ctx,
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.node})
		if !k.good(err) || k.ctx.Err() != nil {
			continue
		}
		k.mu.Lock()
		for _, pod := range pods.Items {
			if owner := metav1.GetControllerOf(&pod); owner != nil && owner.Kind == "Job" && !k.known[pod.UID] {
				k.known[pod.UID] = true
				k.running.Go(func() { k.run(&pod) })
			}
		}
		k.mu.Unlock()
	}
}

func (k *kubelet) pause(d time.Duration) {
	select {
	case <-k.ctx.Done():
	case <-time.After(d):
	}
}

// run runs a pod until it has ended or is deleted.
func (k *kubelet) run(pod *corev1.Pod) {
	container := &pod.Spec.Containers[0]
	dir := filepath.Join(k.dir, string(pod.UID))
	k.good(os.Mkdir(dir, 0o700))
	if !k.mount(pod, dir) {
		k.remove(pod)
		return
	}
	k.mu.Lock()
	hold := k.hold
	k.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-k.ctx.Done():
			return
		}
	}
	if k.deleted(pod) {
		k.remove(pod)
		return
	}
	result := filepath.Join(dir, "termination-log")
	k.good(os.WriteFile(result, nil, 0o600))
	env := []string{"SECRETS=none"}
	for _, variable := range container.Env {
		if variable.ValueFrom.FieldRef.FieldPath == "spec.nodeName" {
			env = append(env, variable.Name+"="+pod.Spec.NodeName)
		}
	}
	args := append(append(append([]string{}, container.Command[1:]...), container.Args...), "-request",
		filepath.Join(dir, "request"), "-result", result)
	p, err := shared.Run(e2e.Command{Name: pod.Name, Path: k.program, Args: args, Env: env})
	if !k.good(err) || p == nil {
		return
	}
	k.mu.Lock()
	k.logs = append(k.logs, p.Log())
	k.mu.Unlock()
	k.tell(pod, corev1.PodRunning,
		corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}})
	for deleted := false; !isDone(p.Done()) && k.ctx.Err() == nil; k.pause(poll) {
		if !deleted && k.deleted(pod) {
			deleted = true
			_ = p.Terminate()
		}
	}
	if k.ctx.Err() != nil {
		_ = p.Kill()
	}
	exit, err := p.Wait(context.WithoutCancel(k.ctx))
	k.good(err)
	message, err := os.ReadFile(result)
	k.good(err)
	phase := corev1.PodSucceeded
	if exit.Code != 0 {
		phase = corev1.PodFailed
	}
	k.mu.Lock()
	k.ended++ // before anybody can know
	k.mu.Unlock()
	k.tell(pod, phase,
		corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(exit.Code),
			Message:  string(message), FinishedAt: metav1.Now(),
		}})
	for k.ctx.Err() == nil && !k.deleted(pod) {
		k.pause(10 * poll)
	}
	k.remove(pod)
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// mount waits for the pod's Secret, and writes down what it holds.
func (k *kubelet) mount(pod *corev1.Pod, dir string) bool {
	for ; k.ctx.Err() == nil && !k.deleted(pod); k.pause(poll) {
		secret, err := k.client.CoreV1().Secrets(pod.Namespace).Get(k.ctx, pod.Spec.Volumes[0].Secret.SecretName,
			metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if !k.good(err) || k.ctx.Err() != nil {
			return false
		}
		for key, value := range secret.Data {
			k.good(os.WriteFile(filepath.Join(dir, key), value, 0o600))
		}
		return true
	}
	return false
}

// deleted says that the pod is to end, as far as this kubelet hears of it.
func (k *kubelet) deleted(pod *corev1.Pod) bool {
	k.mu.Lock()
	cut := k.cut
	k.mu.Unlock()
	if cut {
		return false
	}
	now, err := k.client.CoreV1().Pods(pod.Namespace).Get(k.ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && (now.UID != pod.UID || now.DeletionTimestamp != nil)
}

// remove confirms that a pod has ended.
func (k *kubelet) remove(pod *corev1.Pod) {
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(k.ctx, pod.Name, *metav1.NewDeleteOptions(0))
	if !apierrors.IsNotFound(err) {
		k.good(err)
	}
}

func (k *kubelet) tell(pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	k.mu.Lock()
	cut := k.cut
	k.mu.Unlock()
	if cut {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: state}},
	}})
	k.good(err)
	_, err = k.client.CoreV1().Pods(pod.Namespace).Patch(k.ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if !apierrors.IsNotFound(err) {
		k.good(err)
	}
}

// said is what the pods have written to their logs.
func (k *kubelet) said() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all strings.Builder
	for _, file := range k.logs {
		text, err := os.ReadFile(file)
		k.good(err)
		all.Write(text)
	}
	return all.String()
}

func (k *kubelet) pods() (ended int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ended
}
