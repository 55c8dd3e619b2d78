package leaderforlife_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

func createNode(t *testing.T, w *world) error {
	_, err := w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionTrue,
		}}},
	}, metav1.CreateOptions{})
	return err
}

func updateNode(t *testing.T, w *world, change func(*corev1.Node)) {
	t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err)
	change(n)
	status := n.Status
	n, err = w.client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)
	n.Status = status
	_, err = w.client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func lose(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

func taint(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints,
		corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
}

func TestLostNode(t *testing.T) {
	for name, c := range map[string]struct {
		options []leader.Option
		happens func(t *testing.T, w *world)
		leads   bool
		why     string
	}{
		"not Ready": {
			options: []leader.Option{leader.WithNodeCheck()},
			happens: func(t *testing.T, w *world) { updateNode(t, w, lose) },
			why: "its node is not Ready, which proves nothing: remove the node, or set the taint " +
				"node.kubernetes.io/out-of-service once its machine is off",
		},
		"the Pod is being deleted": {
			options: []leader.Option{leader.WithNodeCheck()},
			happens: func(t *testing.T, w *world) { updateNode(t, w, lose); w.deletePod("a") },
			why:     "its Pod is terminating, with grace until 2000-01-01T00:00:00Z; its node is not Ready",
		},
		"forgotten taint": {
			options: []leader.Option{leader.WithNodeCheck()},
			happens: func(t *testing.T, w *world) { updateNode(t, w, taint) },
			why:     "its Pod runs",
		},
		"out of service": {
			options: []leader.Option{leader.WithNodeCheck()},
			happens: func(t *testing.T, w *world) { updateNode(t, w, lose); updateNode(t, w, taint) },
			leads:   true,
		},
		"node removed": {
			options: []leader.Option{leader.WithNodeCheck()},
			happens: func(t *testing.T, w *world) {
				require.NoError(t, w.client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
			},
			leads: true,
		},
		"without node check": {
			happens: func(t *testing.T, w *world) { updateNode(t, w, lose); updateNode(t, w, taint) },
			why:     "its Pod runs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				require.NoError(t, createNode(t, w))
				w.start(w.pod("a", kubelet))
				require.Equal(t, []string{"a"}, w.leaders())
				b := w.start(w.pod("b"), c.options...)
				synctest.Wait()
				c.happens(t, w)
				if c.leads {
					assert.Equal(t, []string{"a", "b"}, w.leaders(), "at once")
					return
				}
				time.Sleep(time.Hour)
				assert.Equal(t, []string{"a"}, w.leaders())
				assert.Contains(t, b.why(), c.why)
				last := b.logs.FilterMessage("waiting").All()
				assert.Contains(t, last[len(last)-1].ContextMap()["why"], c.why)
				assert.LessOrEqual(t, len(last), 4, "said when it changes, not again and again")
				if c.options == nil {
					for _, r := range w.requests(b, 0) {
						assert.NotContains(t, r, "/nodes")
					}
				}
			})
		})
	}
}

func TestNodeCheckWithoutTheRight(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		require.NoError(t, createNode(t, w))
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.process(w.pod("b"))
		b.forbid("nodes", "get", "watch")
		b.start(w, leader.WithNodeCheck())
		time.Sleep(time.Minute)
		assert.Len(t, b.logs.FilterMessageSnippet("WithNodeCheck has no effect").All(), 1)
		a.exit()
		w.deletePod("a")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"b"}, w.leaders())
	})
}

// fence is a Fence that knows one Pod.
type fence struct {
	mu   sync.Mutex
	pod  string // guarded by mu
	err  error  // guarded by mu
	asks int    // guarded by mu
}

func (f *fence) Ended(_ context.Context, pod *corev1.Pod) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks++
	return pod.Name == f.pod, f.err
}

func (f *fence) set(pod string, err error) (asks int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pod, f.err = pod, err
	return f.asks
}

func TestFence(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		f := &fence{pod: "x"}
		b := w.start(w.pod("b"), leader.WithFence(f))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.leaders())
		asks := f.set("a", errors.New("no connection to the power supply"))
		assert.InDelta(t, 12, asks, 3, "every poll interval")
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.leaders(), "an error proves nothing")
		said := b.logs.FilterMessage("the Fence failed for Pod a").All()
		require.Len(t, said, 1)
		assert.Equal(t, "no connection to the power supply", said[0].ContextMap()["error"])
		f.set("a", nil)
		time.Sleep(6 * time.Second)
		require.Equal(t, []string{"a", "b"}, w.leaders())
	})
}

// reset is the error of a connection, which has a port of its own each time.
func reset(port int32) error {
	return fmt.Errorf("read tcp 10.0.0.7:%d->10.0.9.1:443: read: connection reset by peer", 32768+port)
}

// unreachable is a Fence whose device does not answer.
type unreachable struct{ asked atomic.Int32 }

func (u *unreachable) Ended(context.Context, *corev1.Pod) (bool, error) {
	return false, reset(u.asked.Add(1))
}

func TestFenceThatCannotConnectIsSaidEveryTenMinutes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		u := &unreachable{}
		b := w.start(w.pod("b"), leader.WithFence(u))
		time.Sleep(time.Hour)
		assert.Greater(t, u.asked.Load(), int32(100))
		said := b.logs.FilterMessageSnippet("the Fence failed").All()
		assert.Len(t, said, 6)
		assert.NotEmpty(t, said[len(said)-1].ContextMap()["for"])
	})
}

// hanging is a Fence that answers only after its release.
type hanging chan struct{}

func (h hanging) Ended(context.Context, *corev1.Pod) (bool, error) {
	<-h
	return true, nil
}

func TestFenceThatHangsDelaysASuccessionAtMostOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		h := make(hanging)
		b := w.start(w.pod("b"), leader.WithFence(h))
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.leaders())
		assert.NotZero(t, b.logs.FilterMessageSnippet("the Fence failed").Len())
		a.exit()
		w.deletePod("a")
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"b"}, w.leaders(), "another proof does not wait for it")
		close(h)
	})
}

func TestObservedPodEnd(t *testing.T) {
	observedEnd := leader.WithObservedPodEnd()
	t.Run("seen to end", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.start(w.pod("a"), observedEnd)
			require.Equal(t, []string{"a"}, w.leaders())
			w.start(w.pod("b"), observedEnd)
			synctest.Wait()
			a.exit()
			w.setStatus("a", over(corev1.PodSucceeded, ""))
			require.Equal(t, []string{"b"}, w.leaders())
		})
	})
	t.Run("deleted by force", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(w.pod("a"), observedEnd)
			require.Equal(t, []string{"a"}, w.leaders())
			b := w.start(w.pod("b"), observedEnd)
			synctest.Wait()
			w.deletePod("a")
			w.server.Collect()
			newcomer := w.start(w.pod("c"), observedEnd)
			time.Sleep(time.Hour)
			require.Equal(t, []string{"a"}, w.leaders())
			for _, p := range []*replica{b, newcomer} {
				assert.Equal(t, "a: its Pod was deleted before it was seen to end; if you know that its process has "+
					"ended, delete the lock", p.why())
			}
			require.NoError(t, w.client.CoreV1().ConfigMaps("ns").Delete(t.Context(), lockName, metav1.DeleteOptions{}))
			require.Len(t, w.leaders(), 2, "the way out")
		})
	})
	t.Run("on a node that was removed", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, createNode(t, w))
			w.start(w.pod("a"), observedEnd)
			require.Equal(t, []string{"a"}, w.leaders())
			w.start(w.pod("b"), observedEnd, leader.WithNodeCheck())
			synctest.Wait()
			w.deletePod("a")
			synctest.Wait()
			require.NoError(t, w.client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
			require.Equal(t, []string{"a", "b"}, w.leaders())
		})
	})
	t.Run("otherwise said", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.start(w.pod("a"))
			require.Equal(t, []string{"a"}, w.leaders())
			b := w.start(w.pod("b"))
			synctest.Wait()
			w.deletePod("a")
			require.Equal(t, []string{"a", "b"}, w.leaders())
			assert.Len(t, b.logs.FilterMessageSnippet("was deleted while it ran, at once or by force").All(), 1)
		})
	})
	t.Run("had time to end", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a, err := w.client.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](30)},
				Status:     running,
			}, metav1.CreateOptions{})
			require.NoError(t, err)
			w.start(a)
			require.Equal(t, []string{"a"}, w.leaders())
			b := w.start(w.pod("b"))
			synctest.Wait()
			w.deletePod("a")
			require.Equal(t, []string{"a"}, w.leaders())
			require.NoError(t, w.client.CoreV1().Pods("ns").Delete(t.Context(), "a", *metav1.NewDeleteOptions(0)))
			require.Equal(t, []string{"a", "b"}, w.leaders())
			assert.Zero(t, b.logs.FilterMessageSnippet("by force").Len())
		})
	})
}
