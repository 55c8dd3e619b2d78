package fencejobs

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedbatchv1 "k8s.io/client-go/kubernetes/typed/batch/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
)

const (
	namespace = "jobs"
	victim    = "w1" // that is fenced
	host      = "w2" // that pods run on
	secret    = "hunter2-of-the-bmc"
)

// cluster is what there is besides a controller: one that makes pods for Jobs, a scheduler, a
// kubelet, and a device. It runs until the test ends, in virtual time.
type cluster struct {
	t      *testing.T
	client *fake.Clientset
	rack   *fencingtest.Rack

	mu     sync.Mutex
	uids   int
	starts time.Duration       // how long a pod takes to begin; negative: it never does
	tells  time.Duration       // how long its kubelet takes to tell that it has ended; negative: it never does
	stays  bool                // pods that are deleted stay, since no kubelet confirms that they have ended
	deaf   bool                // the kubelet does not see that pods are deleted
	node   string              // that the scheduler picks; empty: none
	answer func(result) string // in place of the pod's
	run    sync.WaitGroup      // pods
	told   []corev1.Secret     // that pods have mounted
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, client: fake.NewSimpleClientset(), rack: fencingtest.NewRack(nil, victim), starts: 2 * time.Second,
		tells: 500 * time.Millisecond, node: host,
	}
	c.client.PrependReactor("create", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		object := action.(k8stesting.CreateAction).GetObject().(metav1.Object)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.uids++
		object.SetUID(types.UID("uid-" + strconv.Itoa(c.uids)))
		object.SetCreationTimestamp(metav1.Now())
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	created, err := c.client.BatchV1().Jobs(namespace).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	c.run.Go(func() { c.control(ctx, created) })
	t.Cleanup(func() {
		cancel()
		c.run.Wait()
		c.rack.Close()
	})
	return c
}

// control has each Job live its life.
func (c *cluster) control(ctx context.Context, created watch.Interface) {
	defer created.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-created.ResultChan():
			if job, ok := event.Object.(*batchv1.Job); ok && event.Type == watch.Added && !ended(job) {
				c.run.Go(func() { c.live(ctx, job) })
			}
		}
	}
}

// live is what the controller of Jobs does for one.
func (c *cluster) live(ctx context.Context, job *batchv1.Job) {
	pause(ctx, 100*time.Millisecond)
	c.makePod(ctx, job)
	for begun := time.Now(); ctx.Err() == nil; pause(ctx, 500*time.Millisecond) {
		now, err := c.client.BatchV1().Jobs(namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil || ended(now) {
			return
		}
		if time.Since(begun) > time.Duration(*now.Spec.ActiveDeadlineSeconds)*time.Second {
			c.mu.Lock()
			stays := c.stays
			c.mu.Unlock()
			if !stays {
				c.deletePods(ctx, job.UID)
			}
			c.finish(ctx, job.Name, batchv1.JobFailed)
			return
		}
	}
}

func (c *cluster) makePod(ctx context.Context, job *batchv1.Job) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: job.Name + "-abcde",
		Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job,
			batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: job.Spec.Template.Spec}
	c.mu.Lock()
	pod.Spec.NodeName = c.node
	starts := c.starts
	c.mu.Unlock()
	if pod.Spec.NodeName == "" {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: "no room anywhere",
		}}
	}
	_, err := c.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	assert.NoError(c.t, err)
	if pod.Spec.NodeName != "" && starts >= 0 {
		c.run.Go(func() { c.kubelet(ctx, pod.Name, job.Name, secretOf(job)) })
	}
}

// kubelet starts a pod when its Secret is there, and tells what became of it.
func (c *cluster) kubelet(ctx context.Context, pod, job, name string) {
	secrets := c.client.CoreV1().Secrets(namespace)
	mounted, err := secrets.Get(ctx, name, metav1.GetOptions{})
	for range 600 {
		if err == nil || ctx.Err() != nil {
			break
		}
		pause(ctx, 100*time.Millisecond)
		mounted, err = secrets.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return
	}
	at := time.Now()
	c.mu.Lock()
	starts, deaf := c.starts, c.deaf
	c.mu.Unlock()
	pause(ctx, starts)
	if _, err := c.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{}); err != nil && !deaf ||
		ctx.Err() != nil {
		return
	}
	r, err := readRequest(mounted.Data[requestKey])
	if !assert.NoError(c.t, err) {
		return
	}
	c.mu.Lock()
	c.told = append(c.told, *mounted)
	c.mu.Unlock()
	answer := execute(ctx, rack{c.rack}, host, r, at)
	c.mu.Lock()
	tells, replace := c.tells, c.answer
	c.mu.Unlock()
	if tells < 0 {
		return
	}
	pause(ctx, tells)
	message, err := answer.encode()
	if replace != nil {
		message = []byte(replace(answer))
	}
	assert.NoError(c.t, err)
	c.tell(ctx, pod, string(message))
	outcome := batchv1.JobComplete
	if answer.Outcome != done {
		outcome = batchv1.JobFailed
	}
	pause(ctx, time.Second)
	c.finish(ctx, job, outcome)
}

// tell has a pod's status say that it has ended.
func (c *cluster) tell(ctx context.Context, name, message string) {
	pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  containerName,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
	}}
	_, err = c.client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) && ctx.Err() == nil {
		assert.NoError(c.t, err)
	}
}

func (c *cluster) finish(ctx context.Context, name string, how batchv1.JobConditionType) {
	job, err := c.client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || ended(job) {
		return
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
	_, err = c.client.BatchV1().Jobs(namespace).UpdateStatus(ctx, job, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) && ctx.Err() == nil {
		assert.NoError(c.t, err)
	}
}

func (c *cluster) deletePods(ctx context.Context, job types.UID) {
	selector := labels.Set{batchv1.ControllerUidLabel: string(job)}.String()
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		_ = c.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
	}
}

func (c *cluster) jobs() []batchv1.Job {
	c.t.Helper()
	jobs, err := c.client.BatchV1().Jobs(namespace).List(context.WithoutCancel(c.t.Context()), metav1.ListOptions{})
	require.NoError(c.t, err)
	return jobs.Items
}

func (c *cluster) secrets() []corev1.Secret {
	c.t.Helper()
	secrets, err := c.client.CoreV1().Secrets(namespace).List(context.WithoutCancel(c.t.Context()),
		metav1.ListOptions{})
	require.NoError(c.t, err)
	return secrets.Items
}

// offs is how often the device was told to switch off.
func (c *cluster) offs() int { return c.rack.Count(victim, "command", agent.ActionOff) }

func (c *cluster) new(change ...func(*Config)) *Jobs {
	c.t.Helper()
	config := Config{Namespace: namespace, Image: "fencer:test", ClockSkew: 2 * time.Second}
	for _, f := range change {
		f(&config)
	}
	j, err := New(c.client, config)
	require.NoError(c.t, err)
	return j
}

// stopped is a controller that is stopped for so long, when a request is about to be sent.
func (c *cluster) stopped(at string, long time.Duration) *Jobs {
	j := c.new()
	var once sync.Once
	j.client = slow{c.client, func(request string) {
		if request == at {
			once.Do(func() { time.Sleep(long) })
		}
	}}
	return j
}

// slow is a client that may be stopped before it sends something.
type slow struct {
	kubernetes.Interface
	before func(request string)
}

func (s slow) BatchV1() typedbatchv1.BatchV1Interface { return slowBatch{s.Interface.BatchV1(), s} }
func (s slow) CoreV1() typedcorev1.CoreV1Interface    { return slowCore{s.Interface.CoreV1(), s} }

type slowBatch struct {
	typedbatchv1.BatchV1Interface
	slow
}

func (s slowBatch) Jobs(namespace string) typedbatchv1.JobInterface {
	return slowJobs{s.BatchV1Interface.Jobs(namespace), s.slow}
}

type slowJobs struct {
	typedbatchv1.JobInterface
	slow
}

func (s slowJobs) Create(ctx context.Context, job *batchv1.Job, options metav1.CreateOptions) (*batchv1.Job, error) {
	s.before("create jobs")
	return s.JobInterface.Create(ctx, job, options)
}

type slowCore struct {
	typedcorev1.CoreV1Interface
	slow
}

func (s slowCore) Pods(namespace string) typedcorev1.PodInterface {
	return slowPods{s.CoreV1Interface.Pods(namespace), s.slow}
}

type slowPods struct {
	typedcorev1.PodInterface
	slow
}

func (s slowPods) List(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	s.before("list pods")
	return s.PodInterface.List(ctx, options)
}

func target() agent.Target {
	return agent.Target{
		Node: victim, Device: "fence_rack/rack/" + victim, Agent: "fence_rack",
		Parameters: agent.NewParameters(map[string]string{"ip": "rack", "plug": victim, "password": secret}),
	}
}

func off(id string) agent.Command {
	return agent.Command{ID: id, Action: agent.ActionOff, Timeout: 30 * time.Second}
}

// rack is the agent of a pod.
type rack struct{ *fencingtest.Rack }

func (rack) Metadata(_ context.Context, name string) (agent.Metadata, error) {
	if name != "fence_rack" {
		return agent.Metadata{}, fmt.Errorf("no agent %s: %w", name, fs.ErrNotExist)
	}
	return agent.Metadata{
		Name: name, OffIsProof: true, MinSettle: time.Second,
		Parameters: []agent.ParameterSpec{{Name: "plug", Type: agent.TypeString, ShortDesc: "for people"}},
	}, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func encoded(t *testing.T, object any) string {
	t.Helper()
	content, err := json.Marshal(object)
	require.NoError(t, err)
	return string(content)
}
