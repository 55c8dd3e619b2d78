package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
)

// Just before a request about a pod is sent, the pod is gone, and one of the same name is on
// another node.
func TestPodMadeAgainElsewhere(t *testing.T) {
	t.Parallel()
	deleteStep := func(t *testing.T, node *cluster.Node) (progress cluster.Progress, err error) {
		err = again(func() error {
			progress, err = node.DeletePods(t.Context(), proved, cluster.Options{}, progress)
			return err
		})
		return progress, err
	}
	evictStep := func(t *testing.T, node *cluster.Node) (cluster.Progress, error) {
		return node.Evict(t.Context(), proved, cluster.Options{}, cluster.Progress{})
	}
	for name, test := range map[string]struct {
		method, suffix string
		step           func(*testing.T, *cluster.Node) (cluster.Progress, error)
		ended          int32 // by us: the old one
	}{
		"before it is set to Failed": {http.MethodPatch, "/pods/db-0/status", deleteStep, 0},
		"before it is deleted":       {http.MethodDelete, "/pods/db-0", deleteStep, 1},
		"before it is evicted":       {http.MethodPost, "/pods/db-0/eviction", evictStep, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			node, other := w.node(), w.node()
			w.pod("db-0", node.Name)
			var successor *corev1.Pod
			fence := w.fence(node, before(test.method, test.suffix, func() {
				w.forget("db-0")
				successor = w.pod("db-0", other.Name)
			}))
			progress, err := test.step(t, fence)
			require.NoError(t, err)
			require.NotNil(t, successor, "the race was not staged")
			w.requireUntouched(successor)
			assert.Equal(t, v1alpha1.Pods{Listed: 1, Deleted: test.ended}, progress.Pods)
		})
	}
}

// A pod that ends between the list and the patch keeps its phase: a Job would run it again.
func TestPodThatSucceedsMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	pod := w.pod("job", node.Name, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/keep"} })
	fence := w.fence(node, before(http.MethodPatch, "/pods/job/status", func() {
		pod.Status.Phase = corev1.PodSucceeded
		_, err := w.client.CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		assert.NoError(t, err)
	}))
	var progress cluster.Progress
	require.NoError(t, again(func() (err error) {
		progress, err = fence.DeletePods(t.Context(), proved, cluster.Options{}, progress)
		return err
	}))
	assert.Equal(t, v1alpha1.Pods{Listed: 1, Deleted: 1}, progress.Pods)
	assert.Equal(t, corev1.PodSucceeded, w.find("job").Status.Phase)
	w.unfinalize("job")
}

// unfinalize removes all finalizers of a pod.
func (w *world) unfinalize(name string) {
	w.t.Helper()
	require.NoError(w.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod := w.find(name)
		pod.Finalizers = nil
		_, err := w.client.CoreV1().Pods(w.namespace).Update(w.t.Context(), pod, metav1.UpdateOptions{})
		return err
	}))
}

func TestVolumeAttachmentMadeAgainElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node, other := w.node(), w.node()
	name := w.namespace + "-attachment"
	w.attachment(name, node.Name)
	attachments := w.client.StorageV1().VolumeAttachments()
	fence := w.fence(node, before(http.MethodDelete, "/volumeattachments/"+name, func() {
		assert.NoError(t, attachments.Delete(t.Context(), name, metav1.DeleteOptions{}))
		w.attachment(name, other.Name)
	}))
	left, err := fence.DetachVolumes(t.Context(), proved, nil)
	require.NoError(t, err)
	assert.Equal(t, 1, left)
	left, err = fence.DetachVolumes(t.Context(), proved, nil)
	require.NoError(t, err)
	assert.Equal(t, 0, left)
	attachment, err := attachments.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, other.Name, attachment.Spec.NodeName)
}

// A machine that is registered again under the name of the one that is fenced is neither tainted
// nor deleted.
func TestNodeMadeAgain(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			node := w.node()
			var successor *corev1.Node
			fence := w.fence(node, before(method, "/nodes/"+node.Name, func() {
				assert.NoError(t, w.client.CoreV1().Nodes().Delete(t.Context(), node.Name, metav1.DeleteOptions{}))
				var err error
				successor, err = w.client.CoreV1().Nodes().Create(t.Context(),
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, metav1.CreateOptions{})
				assert.NoError(t, err)
			}))
			if method == http.MethodDelete {
				require.NoError(t, fence.Delete(t.Context(), proved))
			} else {
				require.ErrorIs(t, fence.MarkUnschedulable(t.Context(), proved), cluster.ErrNodeGone)
			}
			require.NotNil(t, successor, "the race was not staged")
			now := w.getNode(node.Name)
			assert.Equal(t, successor.UID, now.UID)
			assert.Equal(t, -1, slices.IndexFunc(now.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == v1alpha1.TaintFenced
			}))
		})
	}
}

func TestDeletedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	fence := w.fence(node)
	for range 2 {
		require.NoError(t, again(func() error { return fence.Delete(t.Context(), proved) }))
	}
	pod := w.pod("of-another", node.Name)
	_, err := fence.DeletePods(t.Context(), proved, cluster.Options{}, cluster.Progress{})
	assert.ErrorIs(t, err, cluster.ErrNodeGone)
	_, _, err = fence.Left(t.Context())
	assert.ErrorIs(t, err, cluster.ErrNodeGone)
	w.requireUntouched(pod)
}

// While four others make a hundred edits of the node's taints, ours come and go. No edit is lost.
func TestConcurrentEdits(t *testing.T) {
	t.Parallel()
	const editors, edits = 4, 25
	w := newWorld(t)
	node := w.node()
	foreign := corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "by-hand", Effect: corev1.TaintEffectNoSchedule}
	require.NoError(t, w.editTaints(node.Name, func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, foreign)
	}))

	var editing sync.WaitGroup
	begun := make(chan struct{}) // the first of our rounds is over
	for editor := range editors {
		editing.Go(func() {
			for edit := range edits {
				if edit == edits/2 {
					select {
					case <-begun:
					case <-t.Context().Done():
					}
				}
				assert.NoError(t, w.editTaints(node.Name, func(taints []corev1.Taint) []corev1.Taint {
					return append(taints,
						corev1.Taint{
							Key:    fmt.Sprintf("example.com/%d-%02d", editor, edit),
							Effect: corev1.TaintEffectPreferNoSchedule,
						})
				}))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		editing.Wait()
		close(done)
	}()
	fence, rounds, contended := w.fence(node), 0, 0
	steps := []func() error{
		func() error { return fence.MarkUnschedulable(t.Context(), proved) },
		func() error { _, err := fence.TaintOutOfService(t.Context(), proved); return err },
		func() error { return fence.MarkSchedulable(t.Context()) },
		func() error { _, err := fence.UntaintOutOfService(t.Context()); return err },
	}
	for editing := true; editing; rounds++ {
		select {
		case <-done:
			editing = false // one more round, undisturbed
		default:
		}
		for _, step := range steps {
			for err := again(step); err != nil; err = again(step) {
				require.ErrorIs(t, err, cluster.ErrContended)
				contended++
			}
		}
		if rounds == 0 {
			close(begun)
		}
	}
	t.Logf("%d rounds, %d times out of tries", rounds, contended)
	assert.Greater(t, rounds, 1, "there was no concurrency")
	// The node controller has taints of its own.
	after := slices.DeleteFunc(w.getNode(node.Name).Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	assert.Contains(t, after, foreign)
	assert.Len(t, after, 1+editors*edits)
	for editor := range editors {
		last := -1
		for edit := range edits {
			i := slices.IndexFunc(after,
				func(t corev1.Taint) bool { return t.Key == fmt.Sprintf("example.com/%d-%02d", editor, edit) })
			assert.Greater(t, i, last, "the order of an editor's taints")
			last = i
		}
	}
}

// editTaints changes a node's taints as others do.
func (w *world) editTaints(name string, edit func([]corev1.Taint) []corev1.Taint) error {
	backoff, ctx := retry.DefaultRetry, context.WithoutCancel(w.t.Context())
	backoff.Steps = 1000
	return retry.RetryOnConflict(backoff, func() error {
		node, err := w.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = edit(node.Spec.Taints)
		_, err = w.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Admins' marks stay, whatever we do in between.
func TestMarksOfAdmins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := w.node()
	w.patchNode(node.Name, `{"spec":{"unschedulable":true}}`)
	foreign := corev1.Taint{
		Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
		Effect: corev1.TaintEffectNoExecute,
	}
	require.NoError(t, w.editTaints(node.Name, func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, foreign)
	}))
	fence := w.fence(node)
	ours, err := fence.Cordon(t.Context(), proved)
	require.NoError(t, err)
	assert.False(t, ours)
	progress := w.release(fence, cluster.Options{})
	assert.Equal(t, v1alpha1.TaintForeign, progress.taint)
	require.NoError(t, life(t.Context(), fence))
	after := w.getNode(node.Name)
	assert.True(t, after.Spec.Unschedulable)
	assert.Contains(t, after.Spec.Taints, foreign)
}

// Between our reading of a node and our patch somebody else changes it. Both changes are there
// afterwards.
func TestNodeThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	others := []corev1.Taint{
		{Key: "example.com/first", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "example.com/second", Effect: corev1.TaintEffectPreferNoSchedule},
	}
	for name, test := range map[string]struct {
		prepare   func(*cluster.Node) error
		meanwhile func(*world, string)
		act       func(*cluster.Node) error
		check     func(*testing.T, *corev1.Node)
	}{
		"taints before ours go, as ours is removed": {
			prepare: func(n *cluster.Node) error {
				return again(func() error { return n.MarkUnschedulable(t.Context(), proved) })
			},
			meanwhile: func(w *world, name string) { w.removeTaint(name, others[0].Key) },
			act:       func(n *cluster.Node) error { return n.MarkSchedulable(t.Context()) },
			check: func(t *testing.T, node *corev1.Node) {
				assert.Contains(t, node.Spec.Taints, others[1])
				assert.Equal(t, -1, slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool {
					return t.Key == v1alpha1.TaintFenced
				}))
			},
		},
		"an admin puts the taint that we mean to put": {
			meanwhile: func(w *world, name string) {
				assert.NoError(w.t, w.editTaints(name, func(taints []corev1.Taint) []corev1.Taint {
					return append(taints,
						corev1.Taint{
							Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
							Effect: corev1.TaintEffectNoExecute,
						})
				}))
			},
			act: func(n *cluster.Node) error {
				owner, err := n.TaintOutOfService(t.Context(), proved)
				assert.Equal(t, v1alpha1.TaintForeign, owner)
				return err
			},
			check: func(t *testing.T, node *corev1.Node) {
				assert.Contains(t, node.Spec.Taints,
					corev1.Taint{
						Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown",
						Effect: corev1.TaintEffectNoExecute,
					})
			},
		},
		"an admin cordons, as we mean to": {
			meanwhile: func(w *world, name string) { w.patchNode(name, `{"spec":{"unschedulable":true}}`) },
			act: func(n *cluster.Node) error {
				ours, err := n.Cordon(t.Context(), proved)
				assert.False(t, ours)
				return errors.Join(err, n.Uncordon(t.Context()))
			},
			check: func(t *testing.T, node *corev1.Node) { assert.True(t, node.Spec.Unschedulable) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			node := w.node(others...)
			if test.prepare != nil {
				require.NoError(t, test.prepare(w.fence(node)))
			}
			staged := false
			require.NoError(t, test.act(w.fence(node, before(http.MethodPatch, "/nodes/"+node.Name, func() {
				staged = true
				test.meanwhile(w, node.Name)
			}))))
			require.True(t, staged)
			test.check(t, w.getNode(node.Name))
		})
	}
}

func (w *world) removeTaint(node, key string) {
	w.t.Helper()
	assert.NoError(w.t, w.editTaints(node, func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == key })
	}))
}
