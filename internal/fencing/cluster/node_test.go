package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

var config = cluster.Config{Name: "worker", UID: "uid", Incident: 3}

func worker(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: config.Name, UID: config.UID},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func proved(context.Context) error { return nil }

// world is a cluster of a user's unit test.
type world struct {
	*cluster.Node
	client *fake.Clientset
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	client := fake.NewSimpleClientset(objects...)
	node, err := cluster.New(client, config)
	require.NoError(t, err)
	return &world{node, client}
}

func (w *world) node(t *testing.T) *corev1.Node {
	t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(t.Context(), config.Name, metav1.GetOptions{})
	require.NoError(t, err)
	return node
}

func (w *world) podNames(t *testing.T) []string {
	t.Helper()
	pods, err := w.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	names := []string{}
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}

func (w *world) writes() []string {
	var writes []string
	for _, action := range w.client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			name := verb + " " + action.GetResource().Resource
			if sub := action.GetSubresource(); sub != "" {
				name += "/" + sub
			}
			writes = append(writes, name)
		}
	}
	return writes
}

// refuse makes the API server answer so to a verb.
func (w *world) refuse(verb, resource string, err error) {
	w.client.PrependReactor(verb, resource,
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := cluster.New(nil, cluster.Config{Name: "Not A Name", Incident: -1})
	for _, want := range []string{
		"cluster: client: required (got nil)", `cluster: Name: `, `(got "Not A Name")`,
		`cluster: UID: required (got "")`, "cluster: Incident: at least 1 (got -1)",
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worker(), pod("a", config.Name))
	bad := cluster.Options{Storage: &api.Storage{}}
	for name, err := range map[string]error{
		"delete": func() error { _, err := w.DeletePods(t.Context(), proved, bad, cluster.Progress{}); return err }(),
		"evict":  func() error { _, err := w.Evict(t.Context(), proved, bad, cluster.Progress{}); return err }(),
	} {
		assert.ErrorContains(t, err, "fencing: Storage: Drivers, Classes or Volumes", name)
	}
	_, err := w.DetachVolumes(t.Context(), proved, &api.Storage{})
	assert.ErrorContains(t, err, "fencing: Storage: ")
	assert.Empty(t, w.client.Actions())
}

// actions are everything that needs a proof.
func (w *world) actions(ctx context.Context, prove cluster.Proof) map[string]error {
	errs := map[string]error{"mark-unschedulable": w.MarkUnschedulable(ctx, prove)}
	_, errs["cordon"] = w.Cordon(ctx, prove)
	_, errs["out-of-service"] = w.TaintOutOfService(ctx, prove)
	_, errs["delete-pods"] = w.DeletePods(ctx, prove, cluster.Options{}, cluster.Progress{})
	_, errs["clean-pods"] = w.Evict(ctx, prove, cluster.Options{}, cluster.Progress{})
	_, errs["detach-volumes"] = w.DetachVolumes(ctx, prove, nil)
	errs["delete-node"] = w.Delete(ctx, prove)
	return errs
}

func TestNothingWithoutProof(t *testing.T) {
	t.Parallel()
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "a"},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: config.Name},
	}
	w := newWorld(t, worker(), pod("a", config.Name), attachment)
	for name, err := range w.actions(t.Context(), nil) {
		assert.ErrorContains(t, err, "prove: required", name)
	}
	assert.Empty(t, w.client.Actions())
	cause := errors.New("a feed reads on")
	for name, err := range w.actions(t.Context(), func(context.Context) error { return cause }) {
		assert.ErrorIs(t, err, cluster.ErrNotProved, name)
		assert.ErrorIs(t, err, cause, name)
	}
	assert.Empty(t, w.writes())
}

func TestAnotherNodeOfTheName(t *testing.T) {
	t.Parallel()
	other := worker(corev1.Taint{Key: v1alpha1.TaintFenced, Effect: corev1.TaintEffectNoSchedule},
		corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "bellwether-2", Effect: corev1.TaintEffectNoExecute})
	other.UID = "another"
	other.Annotations = map[string]string{cluster.AnnotationCordoned: "2"}
	for name, w := range map[string]*world{
		"another": newWorld(t, other, pod("a", config.Name)),
		"gone":    newWorld(t, pod("a", config.Name)),
	} {
		assert.ErrorIs(t, w.MarkUnschedulable(t.Context(), proved), cluster.ErrNodeGone, name)
		_, err := w.Cordon(t.Context(), proved)
		assert.ErrorIs(t, err, cluster.ErrNodeGone, name)
		_, err = w.TaintOutOfService(t.Context(), proved)
		assert.ErrorIs(t, err, cluster.ErrNodeGone, name)
		_, err = w.DeletePods(t.Context(), proved, cluster.Options{}, cluster.Progress{})
		assert.ErrorIs(t, err, cluster.ErrNodeGone, name)
		_, _, err = w.Left(t.Context())
		assert.ErrorIs(t, err, cluster.ErrNodeGone, name)
		assert.NoError(t, w.MarkSchedulable(t.Context()), name)
		assert.NoError(t, w.Uncordon(t.Context()), name)
		owner, err := w.UntaintOutOfService(t.Context())
		assert.NoError(t, err, name)
		assert.Equal(t, v1alpha1.TaintNone, owner, name)
		assert.Empty(t, w.writes(), name)
	}
}

func TestTaints(t *testing.T) {
	t.Parallel()
	others := []corev1.Taint{
		{Key: "a", Effect: corev1.TaintEffectNoSchedule},
		{Key: "b", Value: "x", Effect: corev1.TaintEffectNoExecute},
	}
	for name, before := range map[string][]corev1.Taint{"none": nil, "others": others} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worker(before...))
			for range 2 { // again changes nothing
				require.NoError(t, w.MarkUnschedulable(t.Context(), proved))
				owner, err := w.TaintOutOfService(t.Context(), proved)
				require.NoError(t, err)
				assert.Equal(t, v1alpha1.TaintOurs, owner)
			}
			assert.Equal(t, append(before[:len(before):len(before)],
				corev1.Taint{Key: "fencing.bellwether.dev/fenced", Value: "3", Effect: corev1.TaintEffectNoSchedule},
				corev1.Taint{
					Key: "node.kubernetes.io/out-of-service", Value: "bellwether-3",
					Effect: corev1.TaintEffectNoExecute,
				},
			), w.node(t).Spec.Taints)
			for range 2 {
				require.NoError(t, w.MarkSchedulable(t.Context()))
				owner, err := w.UntaintOutOfService(t.Context())
				require.NoError(t, err)
				assert.Equal(t, v1alpha1.TaintNone, owner)
			}
			assert.ElementsMatch(t, before, w.node(t).Spec.Taints)
			assert.Len(t, w.writes(), 4)
		})
	}
}

func TestTaintsOfAnEarlierIncidentAreOurs(t *testing.T) {
	t.Parallel()
	fenced := corev1.Taint{Key: v1alpha1.TaintFenced, Value: "2", Effect: corev1.TaintEffectNoSchedule}
	w := newWorld(t,
		worker(fenced,
			corev1.Taint{
				Key: corev1.TaintNodeOutOfService, Value: "bellwether-2",
				Effect: corev1.TaintEffectNoExecute,
			}))
	require.NoError(t, w.MarkUnschedulable(t.Context(), proved))
	assert.Equal(t, "3", w.node(t).Spec.Taints[0].Value)
	owner, err := w.UntaintOutOfService(t.Context())
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.TaintNone, owner)
	require.NoError(t, w.MarkSchedulable(t.Context()))
	assert.Empty(t, w.node(t).Spec.Taints)
}

// An empty object with 200 is a proxy's answer. It does not say that the Node was changed.
func TestAnswerThatIsNotTheNodeChangesNothing(t *testing.T) {
	fenced := corev1.Taint{Key: v1alpha1.TaintFenced, Value: "3", Effect: corev1.TaintEffectNoSchedule}
	w := newWorld(t, worker(fenced))
	w.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.Node{}, nil
	})
	assert.ErrorContains(t, w.MarkSchedulable(t.Context()), "the answer is not an API server's")
	assert.Len(t, w.node(t).Spec.Taints, 1)
}

func TestForeignOutOfServiceTaintStays(t *testing.T) {
	t.Parallel()
	foreign := corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute,
	}
	w := newWorld(t, worker(foreign))
	for _, f := range []func() (v1alpha1.TaintOwner, error){
		func() (v1alpha1.TaintOwner, error) { return w.TaintOutOfService(t.Context(), proved) },
		func() (v1alpha1.TaintOwner, error) { return w.UntaintOutOfService(t.Context()) },
	} {
		owner, err := f()
		require.NoError(t, err)
		assert.Equal(t, v1alpha1.TaintForeign, owner)
	}
	assert.Empty(t, w.writes())
}

// It is not gone before the API server says so.
func TestTaintThatIsThereAgain(t *testing.T) {
	t.Parallel()
	tainted := worker(corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "bellwether-3",
		Effect: corev1.TaintEffectNoExecute,
	})
	w := newWorld(t, tainted)
	w.client.PrependReactor("get", "nodes",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, tainted, nil })
	owner, err := w.UntaintOutOfService(t.Context())
	assert.ErrorContains(t, err, "there again")
	assert.Equal(t, v1alpha1.TaintOurs, owner)
}

func TestCordon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worker())
	for range 2 {
		ours, err := w.Cordon(t.Context(), proved)
		require.NoError(t, err)
		assert.True(t, ours)
		assert.True(t, w.node(t).Spec.Unschedulable)
	}
	require.NoError(t, w.Uncordon(t.Context()))
	assert.Equal(t, worker().Spec, w.node(t).Spec)
	assert.Empty(t, w.node(t).Annotations)
	require.NoError(t, w.Uncordon(t.Context()))
	assert.Len(t, w.writes(), 2)
}

func TestCordonOfAnAdminStays(t *testing.T) {
	t.Parallel()
	cordoned := worker()
	cordoned.Spec.Unschedulable = true
	w := newWorld(t, cordoned)
	ours, err := w.Cordon(t.Context(), proved)
	require.NoError(t, err)
	assert.False(t, ours)
	require.NoError(t, w.Uncordon(t.Context()))
	assert.Empty(t, w.writes())
}

func TestNodeThatOthersChangeAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker())
		w.refuse("patch", "nodes", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, config.Name, nil))
		begin := time.Now()
		assert.ErrorIs(t, w.MarkUnschedulable(t.Context(), proved), cluster.ErrContended)
		assert.Len(t, w.writes(), 10)
		assert.Less(t, time.Since(begin), 2*time.Second)
	})
}

func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := pod("over", config.Name)
		over.Status.Phase = corev1.PodSucceeded
		w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name), pod("elsewhere", "other"), over)
		full := true
		w.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			eviction := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
			if assert.NotNil(t, eviction.DeleteOptions.Preconditions.UID); full && eviction.Name == "a" {
				return true, nil, apierrors.NewTooManyRequests("it would violate the pod's disruption budget", 0)
			}
			return true, nil, w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"),
				eviction.Namespace, eviction.Name)
		})
		progress, err := w.Evict(t.Context(), proved, cluster.Options{}, cluster.Progress{})
		require.NoError(t, err)
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Deleted: 1, Refused: 1}, progress.Pods)
		progress, err = w.Evict(t.Context(), proved, cluster.Options{}, progress)
		require.NoError(t, err)
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Deleted: 1, Refused: 1}, progress.Pods)
		assert.Equal(t, []string{"default/a"}, progress.Left)
		full = false
		for !progress.Done {
			progress, err = w.Evict(t.Context(), proved, cluster.Options{}, progress)
			require.NoError(t, err)
		}
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Deleted: 2}, progress.Pods)
		assert.Equal(t, []string{"elsewhere", "over"}, w.podNames(t))
	})
}

func TestDetachVolumes(t *testing.T) {
	t.Parallel()
	attachment := func(name, node, driver string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: node, Attacher: driver},
		}
	}
	w := newWorld(t, worker(), attachment("a", config.Name, "san"), attachment("b", config.Name, "nas"),
		attachment("c", "other", "san"))
	for _, step := range []struct {
		storage *api.Storage
		want    int
	}{
		{&api.Storage{Drivers: []string{"san"}}, 1},
		{&api.Storage{Drivers: []string{"san"}}, 0},
		{nil, 1},
		{nil, 0},
	} {
		left, err := w.DetachVolumes(t.Context(), proved, step.storage)
		require.NoError(t, err)
		assert.Equal(t, step.want, left)
	}
	rest, err := w.client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, rest.Items, 1)
}

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worker())
	require.NoError(t, w.Delete(t.Context(), proved))
	require.NoError(t, w.Delete(t.Context(), proved))
	w.refuse("delete", "nodes",
		apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, config.Name, errors.New("no")))
	assert.ErrorContains(t, w.Delete(t.Context(), proved), "cluster: node worker: delete it: ")
}
