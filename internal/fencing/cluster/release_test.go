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
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// deletePods takes steps until it is done, whatever the errors, and fails the test if that takes
// too long.
func (w *world) deletePods(t *testing.T, options cluster.Options) (progress cluster.Progress, errs []error) {
	t.Helper()
	for range 1000 {
		var err error
		if progress, err = w.DeletePods(t.Context(), proved, options, progress); err != nil {
			errs = append(errs, err)
		}
		if progress.Done {
			return progress, errs
		}
		time.Sleep(progress.After)
	}
	require.Fail(t, "it has no end")
	return progress, errs
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stateful := pod("z", config.Name)
		stateful.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "set", Controller: ptr.To(true)}}
		mirror := pod("mirror", config.Name)
		mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		w := newWorld(t, worker(), pod("a", config.Name), stateful, pod("elsewhere", "other"), mirror)
		var gone []string
		begin := time.Now()
		progress, errs := w.deletePods(t,
			cluster.Options{OnPod: func(pod *corev1.Pod) { gone = append(gone, pod.Name) }})
		assert.Empty(t, errs)
		assert.Zero(t, time.Since(begin))
		assert.Equal(t, []string{"z", "a"}, gone)
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Deleted: 2}, progress.Pods)
		assert.Empty(t, progress.Left)
		assert.Empty(t, w.node(t).Spec.Taints, "it would make the cluster delete pods by their names")
		assert.Equal(t, []string{"elsewhere", "mirror"}, w.podNames(t))

		_, err := w.TaintOutOfService(t.Context(), proved)
		require.NoError(t, err)
		pods, attachments, err := w.Left(t.Context())
		require.NoError(t, err)
		assert.Empty(t, pods)
		assert.Empty(t, attachments)
		_, err = w.UntaintOutOfService(t.Context())
		require.NoError(t, err)
		assert.Empty(t, w.node(t).Spec.Taints)
		assert.Equal(t, []string{
			"patch pods/status", "delete pods", "patch pods/status", "delete pods", "patch nodes", "patch nodes",
		}, w.writes())
	})
}

// A node may have more pods than a page, and what a cache of the API server knows is not enough.
func TestPodsAreListedByPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worker())
	var asked []metav1.ListOptions
	w.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		asked = append(asked, options)
		if options.Continue == "" {
			return true, &corev1.PodList{
				ListMeta: metav1.ListMeta{Continue: "more"},
				Items:    []corev1.Pod{*pod("a", config.Name)},
			}, nil
		}
		return true, &corev1.PodList{Items: []corev1.Pod{*pod("b", config.Name)}}, nil
	})
	progress, err := w.DeletePods(t.Context(), proved, cluster.Options{Budget: func(int) int { return 0 }},
		cluster.Progress{})
	require.NoError(t, err)
	assert.Equal(t, []string{"default/a", "default/b"}, progress.Left)
	require.Len(t, asked, 2)
	for i, options := range asked {
		assert.Equal(t,
			metav1.ListOptions{FieldSelector: "spec.nodeName=worker", Limit: 500, Continue: []string{"", "more"}[i]},
			options)
	}
}

func TestPodsAreDeletedWithinABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name), pod("c", config.Name))
		var asked []int
		begin := time.Now()
		progress, errs := w.deletePods(t, cluster.Options{Budget: func(pods int) int {
			asked = append(asked, pods)
			if len(asked) == 2 {
				return 0
			}
			return 1
		}})
		assert.Empty(t, errs)
		assert.Equal(t, []int{3, 2, 2, 1}, asked)
		assert.Equal(t, v1alpha1.Pods{Listed: 3, Deleted: 3}, progress.Pods)
		assert.Equal(t, 3*time.Second, time.Since(begin))
	})
}

// refuseToDelete is a webhook that does not let a pod go.
func (w *world) refuseToDelete(name string) {
	w.client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.DeleteAction).GetName() == name, nil,
			apierrors.NewInternalError(errors.New("failed calling webhook"))
	})
}

// A pod that cannot be deleted keeps neither the others nor the machine for ever.
func TestPodsThatAWebhookRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		budget func(int) int
		tries  int
	}{
		"all at once":                     {nil, 60},
		"one at a time, the others first": {func(int) int { return 1 }, 58},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name), pod("c", config.Name))
				w.refuseToDelete("a")
				begin := time.Now()
				progress, errs := w.deletePods(t, cluster.Options{Budget: test.budget})
				require.Len(t, errs, test.tries)
				assert.ErrorContains(t, errs[0], "cluster: node worker: release pod default/a: ")
				assert.Equal(t, time.Minute, time.Since(begin))
				assert.Equal(t, v1alpha1.Pods{Listed: 3, Deleted: 2}, progress.Pods)
				assert.Equal(t, []string{"default/a"}, progress.Left)
				assert.Equal(t, []string{"a"}, w.podNames(t))
			})
		})
	}
}

// However late it comes.
func TestPodThatAWebhookRefusesIsTriedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker(), pod("a", config.Name))
		w.refuseToDelete("a")
		w.refuseToDelete("late")
		var progress cluster.Progress
		step := func() error {
			var err error
			progress, err = w.DeletePods(t.Context(), proved, cluster.Options{}, progress)
			return err
		}
		require.Error(t, step())
		time.Sleep(59 * time.Second)
		require.NoError(t, w.client.Tracker().Add(pod("late", config.Name)))
		require.Error(t, step())
		time.Sleep(59 * time.Second)
		require.Error(t, step())
		time.Sleep(time.Second)
		require.NoError(t, step())
		assert.True(t, progress.Done)
	})
}

// An API server that does not answer is not a refusal: the release waits for it.
func TestReleaseOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name))
		outage := true
		w.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return outage, nil, errors.New("connection refused")
		})
		var progress cluster.Progress
		for begin := time.Now(); time.Since(begin) < time.Hour; time.Sleep(time.Minute) {
			var err error
			progress, err = w.DeletePods(t.Context(), proved, cluster.Options{}, progress)
			require.ErrorContains(t, err, "connection refused")
			require.False(t, progress.Done)
			require.Equal(t, time.Second, progress.After)
		}
		outage = false
		for !progress.Done {
			var err error
			progress, err = w.DeletePods(t.Context(), proved, cluster.Options{}, progress)
			require.NoError(t, err)
			time.Sleep(progress.After)
		}
		assert.Empty(t, w.podNames(t))
	})
}

// What only its finalizers keep is done with, and yet not gone.
func TestPodThatItsFinalizersKeep(t *testing.T) {
	t.Parallel()
	held := pod("held", config.Name)
	held.DeletionTimestamp, held.DeletionGracePeriodSeconds, held.Finalizers = ptr.To(metav1.Now()), new(int64),
		[]string{"example.com/keep"}
	held.Status.Phase = corev1.PodFailed
	w := newWorld(t, worker(), held)
	progress, err := w.DeletePods(t.Context(), proved, cluster.Options{}, cluster.Progress{})
	require.NoError(t, err)
	assert.True(t, progress.Done)
	assert.Equal(t, []string{"default/held"}, progress.Left)
	pods, _, err := w.Left(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"default/held"}, pods)
	assert.Empty(t, w.writes())
}

func TestLeft(t *testing.T) {
	t.Parallel()
	attachment := func(name, node string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: node},
		}
	}
	node := worker()
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/iscsi/x"}}
	unstarted := pod("unstarted", config.Name)
	unstarted.Status = corev1.PodStatus{Phase: corev1.PodPending}
	unstarted.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	w := newWorld(t, node, attachment("ours", config.Name), attachment("elsewhere", "other"), pod("a", config.Name),
		pod("b", "other"), unstarted)
	pods, attachments, err := w.Left(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"default/a"}, pods)
	assert.Equal(t, []string{"ours", "kubernetes.io/iscsi/x"}, attachments)
	assert.Empty(t, w.writes())
}

// The machine may be switched on in the middle of it.
func TestProofIsAskedForEachPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name))
	asked := 0
	_, err := w.DeletePods(t.Context(), func(context.Context) error {
		if asked++; asked > 2 {
			return errors.New("a feed reads on")
		}
		return nil
	}, cluster.Options{}, cluster.Progress{})
	require.ErrorIs(t, err, cluster.ErrNotProved)
	assert.Equal(t, []string{"b"}, w.podNames(t))
}

// The API server takes so long that a proof is in time for one request only, and for none if the
// pods are listed first.
func TestEachProofIsForOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker(), pod("a", config.Name), pod("b", config.Name))
		lists := 0
		w.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			return false, nil, nil
		})
		var progress cluster.Progress
		var gone []string
		for calls := 0; !progress.Done; calls++ {
			require.Less(t, calls, 8)
			left := 1
			if lists == 0 {
				left = 0
			}
			var err error
			progress, err = w.DeletePods(t.Context(), func(context.Context) error {
				if left--; left < 0 {
					return errors.New("it is too old")
				}
				return nil
			}, cluster.Options{OnPod: func(pod *corev1.Pod) { gone = append(gone, pod.Name) }}, progress)
			if err != nil {
				require.ErrorIs(t, err, cluster.ErrNotProved)
			}
			time.Sleep(time.Second)
		}
		assert.Equal(t, 2, lists, "the last one shows that nothing is left")
		assert.Equal(t, []string{"a", "b"}, gone)
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Deleted: 2}, progress.Pods)
		assert.Equal(t, []string{"patch pods/status", "delete pods", "patch pods/status", "delete pods"}, w.writes())
	})
}

// An old list may be short of pods.
func TestPodsAreListedAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worker(), pod("a", config.Name))
		late := func(context.Context) error { return errors.New("it is too old") }
		progress, err := w.DeletePods(t.Context(), late, cluster.Options{}, cluster.Progress{})
		require.ErrorIs(t, err, cluster.ErrNotProved)
		require.NoError(t, w.client.Tracker().Add(pod("b", config.Name)))
		time.Sleep(10 * time.Second)
		_, err = w.DeletePods(t.Context(), proved, cluster.Options{}, progress)
		require.NoError(t, err)
		assert.Empty(t, w.podNames(t))
	})
}

// A change of a node that the caller has just read costs one request.
func TestChangeOfANodeThatWasSeen(t *testing.T) {
	t.Parallel()
	seen := worker()
	seen.ResourceVersion = "7"
	w := newWorld(t, seen)
	with := config
	with.Seen = seen
	node, err := cluster.New(w.client, with)
	require.NoError(t, err)
	owner, err := node.TaintOutOfService(t.Context(), proved)
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.TaintOurs, owner)
	require.Len(t, w.client.Actions(), 1)
	assert.Len(t, w.node(t).Spec.Taints, 1)

	owner, err = node.UntaintOutOfService(t.Context())
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.TaintNone, owner, "the taint was not seen")
	assert.Empty(t, w.node(t).Spec.Taints)

	conflicts := 1
	w.client.PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(corev1.Resource("nodes"), config.Name, errors.New("old"))
	})
	require.NoError(t, node.MarkUnschedulable(t.Context(), proved))
	assert.Len(t, w.node(t).Spec.Taints, 1)
}
