package leaderforlife_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

const (
	patience = time.Minute // for what has no bound of its own
	poll     = 50 * time.Millisecond

	// lostNode and goodNode are played by KWOK. On handNode the test is the kubelet.
	lostNode, goodNode, handNode = "lost", "good", "hand"

	lockName = "example-leader"
)

// rights are what the package documentation says a candidate should have.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{lockName},
		Verbs: []string{"get", "watch", "delete"},
	},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "patch"}},
}

// cluster is the Pods of a namespace that contend for one lock.
type cluster struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
	gauge     *e2e.Gauge

	mu      sync.Mutex
	deleted map[types.UID]deletion // guarded by mu: Pods
}

// deletion of a Pod: at which version, and when the test saw it.
type deletion struct {
	version int64
	at      time.Time
}

func newCluster(t *testing.T, rules ...rbacv1.PolicyRule) *cluster {
	t.Helper()
	namespace, err := shared.Namespace(t.Context(), "cluster")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	c := &cluster{
		t: t, client: client, namespace: namespace, gauge: e2e.NewGauge(t, shared, namespace),
		deleted: map[types.UID]deletion{},
	}
	if rules == nil {
		rules = rights
	}
	require.NoError(t, shared.Grant(t.Context(), "system:serviceaccount:"+namespace+":default", namespace, rules...))
	require.Eventually(t, func() bool {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	}, patience, poll, "no service account")
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: handNode}},
		metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	c.observe()
	return c
}

// observe notes deletions of Pods.
func (c *cluster) observe() {
	pods := c.client.CoreV1().Pods(c.namespace)
	list, err := pods.List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	e2e.Follow(c.t, list.ResourceVersion, pods.Watch, func(e watch.Event) {
		if e.Type != watch.Deleted {
			return
		}
		pod := e.Object.(*corev1.Pod)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deleted[pod.UID] = deletion{version(c.t, pod.ResourceVersion), time.Now()}
	})
}

func version(t *testing.T, resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	assert.NoError(t, err)
	return n
}

// requireDeleted waits for the end of a Pod's object.
func (c *cluster) requireDeleted(pod *corev1.Pod) deletion {
	c.t.Helper()
	var d deletion
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		var ok bool
		d, ok = c.deleted[pod.UID]
		return ok
	}, patience, poll, "Pod %s is not deleted", pod.Name)
	return d
}

func spec(node string) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName: node, ServiceAccountName: "default",
		Containers: []corev1.Container{{Name: "main", Image: "none.invalid/none"}},
	}
}

// pod creates a Pod on a node, which runs when pod returns.
func (c *cluster) pod(name, node string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).
		Create(c.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(node)},
			metav1.CreateOptions{})
	require.NoError(c.t, err)
	if node == handNode {
		return c.report(pod, running)
	}
	require.Eventually(c.t, func() bool {
		pod = c.get(name)
		return pod.Status.Phase == corev1.PodRunning
	}, patience, poll)
	return pod
}

func (c *cluster) get(name string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	return pod
}

// running is the status of a Pod that runs.
var running = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
	{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
}}

// over is the status of a Pod whose containers have ended.
func over(phase corev1.PodPhase, reason string) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, Reason: reason, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}}
}

// report is what a kubelet says of a Pod.
func (c *cluster) report(pod *corev1.Pod, status corev1.PodStatus) *corev1.Pod {
	c.t.Helper()
	pod = c.get(pod.Name)
	pod.Status = status
	pod, err := c.client.CoreV1().Pods(c.namespace).UpdateStatus(c.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(c.t, err)
	return pod
}

// finish is what a kubelet does with a Pod that was deleted, when its containers have ended.
func (c *cluster) finish(pod *corev1.Pod) {
	c.t.Helper()
	require.NoError(c.t,
		c.client.CoreV1().Pods(c.namespace).Delete(c.t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
}

// block creates an object that the collector has to wait for when the Pod is deleted in the
// foreground, and knows of.
func (c *cluster) block(pod *corev1.Pod) (unblock func()) {
	c.t.Helper()
	configMaps := c.client.CoreV1().ConfigMaps(c.namespace)
	own := func(name string, owner types.UID, finalizers ...string) {
		ref := metav1.OwnerReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: owner,
			BlockOwnerDeletion: ptr.To(true),
		}
		_, err := configMaps.Create(c.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, OwnerReferences: []metav1.OwnerReference{ref},
				Finalizers: finalizers,
			},
		}, metav1.CreateOptions{})
		require.NoError(c.t, err)
	}
	own("blocker", pod.UID, "e2e.invalid/blocks")
	own("orphan", "missing") // the collector sees ConfigMaps in order: once it has removed this one it knows the other
	require.Eventually(c.t, func() bool {
		_, err := configMaps.Get(c.t.Context(), "orphan", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, poll, "there is no collector")
	return func() {
		c.t.Helper()
		_, err := configMaps.Patch(c.t.Context(), "blocker", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(c.t, err)
	}
}

func (c *cluster) lock() *corev1.ConfigMap {
	c.t.Helper()
	lock, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(c.t.Context(), lockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(c.t, err)
	return lock
}

// candidate is a process of a Pod, with the token that the kubelet mounts.
type candidate struct {
	pod    *corev1.Pod
	cancel context.CancelFunc
	joined sync.WaitGroup

	mu    sync.Mutex
	why   string    // it waits
	led   time.Time // when it came to lead
	ended error
}

func (c *cluster) candidate(pod *corev1.Pod, options ...leader.Option) *candidate {
	c.t.Helper()
	config, err := shared.ServiceAccount(c.t.Context(), c.namespace, "default", pod)
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(c.t.Context())
	p := &candidate{pod: pod, cancel: cancel}
	options = append([]leader.Option{
		leader.WithConfig(config), leader.WithNamespace(c.namespace),
		leader.WithHooks(leader.Hooks{OnWaiting: func(waiting []leader.Waiting) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.why = fmt.Sprint(waiting)
		}}),
	}, options...)
	p.joined.Go(func() {
		err := leader.Become(ctx, lockName, options...)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended = err; err == nil {
			p.led = time.Now()
		}
	})
	c.t.Cleanup(func() {
		cancel()
		p.joined.Wait()
	})
	return p
}

func (p *candidate) leads() (since time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.led, !p.led.IsZero()
}

// requireLead waits until one of the candidates leads, and requires that no other does.
func (c *cluster) requireLead(candidates ...*candidate) *candidate {
	c.t.Helper()
	var leaders []*candidate
	require.Eventually(c.t, func() bool {
		leaders = nil
		for _, p := range candidates {
			if _, ok := p.leads(); ok {
				leaders = append(leaders, p)
			}
		}
		return len(leaders) > 0
	}, patience, poll, "no Pod leads")
	require.Len(c.t, leaders, 1)
	return leaders[0]
}

// requireWaiting waits until a candidate says that it waits, and why.
func (c *cluster) requireWaiting(p *candidate, texts ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range texts {
			if !strings.Contains(p.why, text) {
				return false
			}
		}
		return true
	}, patience, poll, "%s never says %q", p.pod.Name, texts)
	_, leads := p.leads()
	require.False(c.t, leads)
}
