package conformance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// grace is that of the Pods below, in seconds, and is more than a case takes. A server without
// defaults would give them no grace period.
const grace = 300

// somewhere is a missing node, so that no kubelet handles its Pods.
const somewhere = "conformance-nowhere"

func newPod(t *testing.T, suffix string, finalizers ...string) *corev1.Pod {
	seconds := int64(grace)
	pod := &corev1.Pod{
		ObjectMeta: objectMeta(t, suffix, nil),
		Spec: corev1.PodSpec{
			NodeName: somewhere, ServiceAccountName: ServiceAccount, TerminationGracePeriodSeconds: &seconds,
			Containers: []corev1.Container{{Name: "c", Image: "example.com/image"}},
		},
	}
	pod.Finalizers = finalizers
	return pod
}

func (c *Clients) pods() coreclient.PodInterface { return c.Typed.CoreV1().Pods(c.Namespace) }

func (c *Clients) createPod(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	created, err := c.pods().Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func (c *Clients) getPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := c.pods().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return pod
}

// endPod deletes a Pod, with a grace period if there is one.
func (c *Clients) endPod(t *testing.T, pod *corev1.Pod, seconds ...int64) {
	t.Helper()
	var options metav1.DeleteOptions
	if len(seconds) > 0 {
		options.GracePeriodSeconds = &seconds[0]
	}
	require.NoError(t, c.pods().Delete(t.Context(), pod.Name, options))
}

// podGone asserts that no such Pod exists.
func (c *Clients) podGone(t *testing.T, name string) {
	t.Helper()
	_, err := c.pods().Get(t.Context(), name, metav1.GetOptions{})
	refused(t, err, 404, metav1.StatusReasonNotFound)
}

func (c *Clients) unfinalize(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	_, err := c.pods().Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
}

// requireEnding asserts that a Pod has to end so many seconds after its deletion began.
func requireEnding(t *testing.T, pod *corev1.Pod, seconds int64) {
	t.Helper()
	require.NotNil(t, pod.DeletionTimestamp)
	require.NotNil(t, pod.DeletionGracePeriodSeconds)
	assert.Equal(t, seconds, *pod.DeletionGracePeriodSeconds)
	begun := pod.DeletionTimestamp.Add(-time.Duration(seconds) * time.Second)
	assert.WithinDuration(t, pod.CreationTimestamp.Time, begun, grace/2*time.Second)
}

// podCases are about the end of Pods, for which the kubelet gets time to end the containers, and
// reports when they have ended.
func podCases() []Case {
	return []Case{
		{"end: a deletion gives a Pod on a node its grace period", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			events := follow(t, c.pods(),
				metav1.ListOptions{FieldSelector: named(pod.Name), ResourceVersion: pod.ResourceVersion})
			var answer corev1.Pod
			require.NoError(t,
				c.core().Delete().Namespace(c.Namespace).Resource("pods").Name(pod.Name).Do(t.Context()).Into(&answer))
			ending := c.getPod(t, pod.Name)
			requireEnding(t, ending, grace)
			assert.Equal(t, ending, &answer)
			assert.Equal(t, ending, events.next("MODIFIED").Event.Object)
		}},
		{"end: who deletes a Pod may say how long it has", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod, 2*grace)
			requireEnding(t, c.getPod(t, pod.Name), 2*grace)
		}},
		{"end: a negative grace period is a second", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod, -5)
			requireEnding(t, c.getPod(t, pod.Name), 1)
		}},
		{"end: another deletion may shorten the grace period, and change nothing else", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod, 100)
			ending := c.getPod(t, pod.Name)
			c.endPod(t, pod, 200)
			c.endPod(t, pod)
			require.NoError(t,
				c.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
			assert.Equal(t, ending, c.getPod(t, pod.Name))
			c.endPod(t, pod, 10)
			sooner := c.getPod(t, pod.Name)
			requireEnding(t, sooner, 10)
			assert.Equal(t, 90*time.Second, ending.DeletionTimestamp.Sub(sooner.DeletionTimestamp.Time))
		}},
		{"end: with a grace period of 0 a Pod is gone, and its last state says so", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod)
			events := follow(t, c.pods(),
				metav1.ListOptions{
					FieldSelector:   named(pod.Name),
					ResourceVersion: c.getPod(t, pod.Name).ResourceVersion,
				})
			none := int64(0)
			options := metav1.DeleteOptions{
				GracePeriodSeconds: &none,
				Preconditions:      &metav1.Preconditions{UID: &pod.UID},
			}
			require.NoError(t, c.pods().Delete(t.Context(), pod.Name, options))
			c.podGone(t, pod.Name)
			requireEnding(t, events.next("MODIFIED").Event.Object.(*corev1.Pod), 0)
			requireEnding(t, events.next("DELETED").Event.Object.(*corev1.Pod), 0)
		}},
		{"end: a Pod may be gone without having been told to end", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod, 0)
			c.podGone(t, pod.Name)
		}},
		{"end: another uid is a conflict", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			err := c.pods().Delete(t.Context(), pod.Name, *metav1.NewPreconditionDeleteOptions("other"))
			refused(t, err, 409, metav1.StatusReasonConflict)
			assert.Nil(t, c.getPod(t, pod.Name).DeletionTimestamp)
		}},
		{"end: a Pod on no node is gone at once", func(t *testing.T, c *Clients) {
			pod := newPod(t, "")
			pod.Spec.NodeName = ""
			c.endPod(t, c.createPod(t, pod))
			c.podGone(t, pod.Name)
		}},
		{"end: a Pod that has ended is gone at once", func(t *testing.T, c *Clients) {
			for suffix, phase := range map[string]corev1.PodPhase{
				"-failed":    corev1.PodFailed,
				"-succeeded": corev1.PodSucceeded,
			} {
				pod := c.createPod(t, newPod(t, suffix))
				pod.Status.Phase = phase
				_, err := c.pods().UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
				require.NoError(t, err)
				c.endPod(t, pod)
				c.podGone(t, pod.Name)
			}
		}},
		{"end: a Pod that ends during its grace period stays until that is reported", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			c.endPod(t, pod)
			ending := c.getPod(t, pod.Name)
			ending.Status.Phase = corev1.PodSucceeded
			ended, err := c.pods().UpdateStatus(t.Context(), ending, metav1.UpdateOptions{})
			require.NoError(t, err)
			requireEnding(t, ended, grace)
			requireEnding(t, c.getPod(t, pod.Name), grace)
		}},
		{"end: a finalizer keeps a Pod that has ended", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, "", "example.com/one"))
			c.endPod(t, pod)
			c.endPod(t, pod, 0)
			requireEnding(t, c.getPod(t, pod.Name), 0)
			c.unfinalize(t, pod)
			c.podGone(t, pod.Name)
		}},
		{"end: without its finalizer a Pod has its grace period still", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, "", "example.com/one"))
			c.endPod(t, pod)
			c.unfinalize(t, pod)
			requireEnding(t, c.getPod(t, pod.Name), grace)
			c.endPod(t, pod, 0)
			c.podGone(t, pod.Name)
		}},
		{"end: in the foreground a Pod waits for the collector too", func(t *testing.T, c *Clients) {
			pod := c.createPod(t, newPod(t, ""))
			require.NoError(t,
				c.pods().Delete(t.Context(), pod.Name, metav1.DeleteOptions{PropagationPolicy: &foreground}))
			ending := c.getPod(t, pod.Name)
			requireEnding(t, ending, grace)
			assert.Equal(t, []string{metav1.FinalizerDeleteDependents}, ending.Finalizers)
			c.endPod(t, pod, 0)
			requireEnding(t, c.getPod(t, pod.Name), 0)
			c.unfinalize(t, pod)
			c.podGone(t, pod.Name)
		}},
		{"end: Pods of a collection each get their grace period", func(t *testing.T, c *Clients) {
			c.createPod(t, newPod(t, "-one"))
			elsewhere := newPod(t, "-two")
			elsewhere.Spec.NodeName = ""
			c.createPod(t, elsewhere)
			require.NoError(t,
				c.pods().DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: ofCase(t)}))
			requireEnding(t, c.getPod(t, unique(t)+"-one"), grace)
			c.podGone(t, elsewhere.Name)
		}},
	}
}
