package fencing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

const (
	patience = 3 * time.Minute // for what has no bound of its own
	poll     = 50 * time.Millisecond
)

// rights are what the package documentation says a fencer needs.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
	{
		APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"},
		Verbs: []string{"list", "delete"},
	},
	{
		APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "persistentvolumes"},
		Verbs: []string{"get"},
	},
}

// fencer has these rights, granted once.
const fencer = "fencer"

var granted = sync.OnceValue(func() error {
	return shared.Grant(context.Background(), fencer, "", rights...)
})

// world is a namespace of a test, seen by an admin.
type world struct {
	t         *testing.T
	client    kubernetes.Interface
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	require.NoError(t, granted())
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	namespace, err := shared.Namespace(t.Context(), "fencing")
	require.NoError(t, err)
	return &world{t: t, client: client, namespace: namespace}
}

func proved(context.Context) error { return nil }

// fence is what a controller, in a process of its own, has of a node. Its requests pass through
// hooks.
func (w *world) fence(node *corev1.Node,
	hooks ...func(*http.Request, http.RoundTripper) (*http.Response, error),
) *cluster.Node {
	w.t.Helper()
	config := shared.User(fencer)
	for _, hook := range hooks {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) { return hook(r, next) })
		})
	}
	client, err := kubernetes.NewForConfig(config)
	require.NoError(w.t, err)
	n, err := cluster.New(client, cluster.Config{Name: node.Name, UID: node.UID, Incident: 1})
	require.NoError(w.t, err)
	return n
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// before does something once, just before the request with this method whose path ends so arrives.
// It counts as sent then: what is done may take longer than the second within which it has to be.
func before(method, suffix string, do func()) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	var once sync.Once
	return func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.WroteHeaders != nil {
				trace.WroteHeaders()
			}
			once.Do(do)
		}
		return next.RoundTrip(r)
	}
}

var errCrashed = errors.New("the process has crashed")

// crash is the end of a process: it lets some writes pass. The next one is not sent, or its answer
// is lost, and nothing is sent after it.
type crash struct {
	after int // so many writes that had an effect
	lost  bool

	mu      sync.Mutex
	written int  // guarded by mu
	dead    bool // guarded by mu
}

func (c *crash) roundTrip(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.dead:
		return nil, errCrashed
	case r.Method == http.MethodGet:
		return next.RoundTrip(r)
	case c.written == c.after:
		c.dead = true
		if c.lost {
			if response, err := next.RoundTrip(r); err == nil {
				_ = response.Body.Close()
			}
		}
		return nil, errCrashed
	}
	response, err := next.RoundTrip(r)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		c.written++
	}
	return response, err
}

// node makes a node that has no kubelet. It is in a zone of its own kind: where half of the nodes
// are lost, no pod is evicted from lost nodes.
func (w *world) node(taints ...corev1.Taint) *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Create(w.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: w.namespace + "-",
			Labels:       map[string]string{corev1.LabelTopologyZone: "by-hand"},
		},
		Spec: corev1.NodeSpec{Taints: taints},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return node
}

func (w *world) getNode(name string) *corev1.Node {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	return node
}

// outOfService are the values of the node's taints of this kind.
func (w *world) outOfService(node string) []string {
	w.t.Helper()
	var values []string
	for _, taint := range w.getNode(node).Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			values = append(values, taint.Value)
		}
	}
	return values
}

func (w *world) newPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	pod.Spec.NodeName = node
	for _, f := range change {
		f(pod)
	}
	return pod
}

var spec = corev1.PodSpec{
	TerminationGracePeriodSeconds: ptr.To(int64(1)),
	Containers:                    []corev1.Container{{Name: "main", Image: "none.invalid/none"}},
}

// pod makes a pod on a node.
func (w *world) pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods(w.namespace).Create(w.t.Context(), w.newPod(name, node, change...),
		metav1.CreateOptions{})
	require.NoError(w.t, err)
	return pod
}

// never requires that something is not so for a while. Unlike require.Never it has looked for the
// last time when it returns: what the test does afterwards may well make it so.
func (w *world) never(what string, d time.Duration, so func() bool) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * poll) {
		require.False(w.t, so(), what)
	}
}

// find returns the pod of this name, nil if there is none.
func (w *world) find(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods(w.namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return pod
}

// forget is what a kubelet does with a pod that has ended.
func (w *world) forget(name string) {
	w.t.Helper()
	require.NoError(w.t, w.client.CoreV1().Pods(w.namespace).Delete(w.t.Context(), name, *metav1.NewDeleteOptions(0)))
}

// requireUntouched requires that a pod is as it was made.
func (w *world) requireUntouched(pod *corev1.Pod) {
	w.t.Helper()
	now := w.find(pod.Name)
	require.NotNil(w.t, now, "pod %s is gone", pod.Name)
	require.Equal(w.t, pod.UID, now.UID)
	require.Nil(w.t, now.DeletionTimestamp)
	require.Equal(w.t, pod.Status.Phase, now.Status.Phase)
	require.Empty(w.t, now.Status.Conditions)
}

// attachment makes a VolumeAttachment of a node, which no driver knows.
func (w *world) attachment(name, node string) *storagev1.VolumeAttachment {
	w.t.Helper()
	attachment, err := w.client.StorageV1().VolumeAttachments().Create(w.t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: node, Attacher: "driver.invalid",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("volume-" + name)},
		},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return attachment
}

// released is what a release has come to.
type released struct {
	cluster.Progress                      // of the pods
	left, attachments []string            // what was there still
	taint             v1alpha1.TaintOwner // that is on the node now
}

// again repeats something while this machine is too slow: a request must be sent while its proof is
// valid, and its answer must be read at once, as a controller does.
func again(do func() error) error {
	for {
		err := do()
		if err == nil || !strings.Contains(err.Error(), "within the second for which its proof is good") &&
			!strings.Contains(err.Error(), "it is too early") {
			return err
		}
	}
}

// release does the parts of a release in their order, as one process does, which waits so long for
// what others have to do. Its first error is its end. Where only the pods of a storage are
// released, that is all.
func release(ctx context.Context, node *cluster.Node, prove cluster.Proof, options cluster.Options,
	patience time.Duration,
) (r released, err error) {
	for !r.Done {
		if err = again(func() error {
			r.Progress, err = node.DeletePods(ctx, prove, options, r.Progress)
			return err
		}); err == nil {
			err = pause(ctx, r.After)
		}
		if err != nil {
			return r, err
		}
	}
	if options.Storage != nil {
		return r, nil
	}
	if err := pause(ctx, 250*time.Millisecond); err != nil {
		return r, err
	}
	if err = again(func() error { r.taint, err = node.TaintOutOfService(ctx, prove); return err }); err != nil {
		return r, err
	}
	for begin := time.Now(); ; {
		if r.left, r.attachments, err = node.Left(ctx); err != nil {
			return r, err
		}
		if len(r.left)+len(r.attachments) == 0 || time.Since(begin) >= patience {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return r, err
		}
	}
	r.taint, err = node.UntaintOutOfService(ctx)
	return r, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (w *world) release(node *cluster.Node, options cluster.Options) released {
	w.t.Helper()
	r, err := release(w.t.Context(), node, proved, options, time.Second)
	require.NoError(w.t, err)
	return r
}

// patchNode patches a node as others do.
func (w *world) patchNode(name, patch string, subresources ...string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Nodes().Patch(w.t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	require.NoError(w.t, err)
}
