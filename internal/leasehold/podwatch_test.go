package leasehold

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// cluster is a server with a lease that process "MARK" in Pod p holds, and a witness.
type cluster struct {
	server     *apisim.Server
	connection *apisim.Client // of the witness
	client     kubernetes.Interface
	witness    *Witness
	pod        *corev1.Pod
}

func newCluster(t *testing.T, log *zap.Logger) *cluster {
	t.Helper()
	c := &cluster{server: apisim.NewServer()}
	c.client = kubernetes.NewForConfigOrDie(c.server.Client("test").Config())
	var err error
	c.pod, err = c.client.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	now := metav1.NewMicroTime(time.Now().Truncate(time.Second))
	l := lease.Record{}.Acquired(name, "leader", 15*time.Second, now)
	lease.SetProcess(l, "MARK")
	l.Annotations[lease.PodAnnotation] = "p/" + string(c.pod.UID) + "/3s"
	_, err = c.client.CoordinationV1().Leases("ns").Create(t.Context(), l, metav1.CreateOptions{})
	require.NoError(t, err)
	c.connection = c.server.Client("witness")
	c.witness = NewWitness(t.Context(), kubernetes.NewForConfigOrDie(c.connection.Config()), Config{
		Timing: lease.Timing{}.WithDefaults(), Clock: clock.System(), Process: "OWN", Log: log,
	})
	return c
}

func (c *cluster) record(t *testing.T) lease.Record {
	t.Helper()
	l, err := c.client.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
	require.NoError(t, err)
	return lease.RecordOf(l)
}

// see shows the present record to the witness.
func (c *cluster) see(t *testing.T) { t.Helper(); c.witness.See(name, c.record(t)) }

func terminated(message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}
}

// report writes a status of the Pod, as a kubelet does.
func (c *cluster) report(t *testing.T, state corev1.ContainerState) {
	t.Helper()
	pod := c.pod.DeepCopy()
	pod.ResourceVersion = ""
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: state}}
	_, err := c.client.CoreV1().Pods("ns").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func (c *cluster) change(t *testing.T, change func(*coordinationv1.Lease)) {
	t.Helper()
	l := c.record(t).Lease().DeepCopy()
	change(l)
	_, err := c.client.CoordinationV1().Leases("ns").Update(t.Context(), l, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func TestWitnessReleasesAMarginAfterTheReport(t *testing.T) {
	for name, early := range map[string]bool{"seen by the watch": false, "before the watch": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, zap.NewNop())
				defer c.witness.Close()
				if early {
					c.report(t, terminated("MARK"))
				}
				c.see(t)
				if !early {
					time.Sleep(time.Minute)
					c.see(t) // the same holder
					c.report(t, terminated("MARK"))
				}
				time.Sleep(3*time.Second - time.Millisecond)
				assert.Equal(t, "leader", c.record(t).Holder())
				time.Sleep(2 * time.Millisecond)
				assert.True(t, c.record(t).Released())
			})
		})
	}
}

// Somebody else has removed what the API does not require.
func TestWitnessReleasesALeaseWithoutARenewTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, zap.NewNop())
		defer c.witness.Close()
		c.change(t, func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil })
		c.see(t)
		c.report(t, terminated("MARK"))
		time.Sleep(4 * time.Second)
		assert.True(t, c.record(t).Released())
	})
}

func TestWitnessLeavesTheLeaseOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, zap.NewNop())
		defer c.witness.Close()
		c.see(t)
		synctest.Wait()
		c.report(t, terminated("MARK"))
		time.Sleep(time.Second)
		// The next container of the Pod takes the lease back. The witness has not seen it.
		c.change(t, func(l *coordinationv1.Lease) { lease.SetProcess(l, "NEXT") })
		time.Sleep(time.Minute)
		assert.Equal(t, "leader", c.record(t).Holder())
		// It has seen it, and the end of its container, too.
		c.see(t)
		c.report(t, terminated("NEXT"))
		time.Sleep(4 * time.Second)
		assert.True(t, c.record(t).Released())
	})
}

func TestWitnessForgetsAFormerHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, zap.NewNop())
		defer c.witness.Close()
		for is, change := range map[string]func(*coordinationv1.Lease){
			"this process":  func(l *coordinationv1.Lease) { lease.SetProcess(l, "OWN") },
			"without a Pod": func(l *coordinationv1.Lease) { delete(l.Annotations, lease.PodAnnotation) },
		} {
			c.see(t)
			assert.Len(t, c.witness.vigils, 1, is)
			l := c.record(t).Lease().DeepCopy()
			change(l)
			c.witness.See(name, lease.RecordOf(l))
			assert.Empty(t, c.witness.vigils, is)
		}
		c.see(t)
		c.witness.See(name, lease.Record{})
		assert.Empty(t, c.witness.vigils, "deleted")
		c.witness.Close()
		c.see(t)
		assert.Empty(t, c.witness.vigils, "closed")
	})
}

// TestWitnessGoesOnAfterFaults has watches that end or cannot be opened, and writes that fail.
func TestWitnessGoesOnAfterFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, zap.NewNop())
		defer c.witness.Close()
		c.see(t)
		synctest.Wait()
		c.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		c.server.Restart(0)
		time.Sleep(10 * time.Second)
		c.report(t, terminated("MARK"))
		isPut := func(r *http.Request) bool { return r.Method == http.MethodPut }
		c.connection.Inject(apisim.Faults{LoseRequest: isPut})
		time.Sleep(30 * time.Second)
		assert.Equal(t, "leader", c.record(t).Holder())
		c.connection.Inject(apisim.Faults{})
		time.Sleep(15 * time.Second)
		assert.True(t, c.record(t).Released())
	})
}

// Something between answers for the API server.
func TestAWatchOfAPodThatFailsIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := logtest.New(zap.DebugLevel)
		c := newCluster(t, zap.New(core))
		defer c.witness.Close()
		c.connection.Inject(apisim.Faults{Refuse: apisim.Always})
		c.see(t)
		time.Sleep(time.Hour)
		said := logs.FilterMessage("a watch of a holder's Pod failed, retrying").All()
		require.Len(t, said, 1)
		assert.Contains(t, said[0].ContextMap()["error"], "watch Pod ns/p")
	})
}

// TestWitnessWithoutTheRightIsSilent logs the refusal once, for all leases.
func TestWitnessWithoutTheRightIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var watches atomic.Int32
		client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
			watches.Add(1)
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "p",
				errString(`User "u" cannot watch resource "pods" in API group "" in the namespace "ns"`))
		})
		core, logs := logtest.New(zap.DebugLevel)
		w := NewWitness(t.Context(), client, Config{
			Timing: lease.Timing{}.WithDefaults(), Clock: clock.System(), Log: zap.New(core),
		})
		defer w.Close()
		for _, name := range []string{"l", "m"} {
			id := types.NamespacedName{Namespace: "ns", Name: name}
			l := lease.Record{}.Acquired(id, "leader", 15*time.Second, metav1.NewMicroTime(time.Now()))
			lease.SetProcess(l, "MARK")
			l.Annotations[lease.PodAnnotation] = "p/u/3s"
			w.See(id, lease.RecordOf(l))
		}
		time.Sleep(10*time.Minute + time.Second)
		assert.Equal(t, 1, logs.Len())
		assert.LessOrEqual(t, watches.Load(), int32(22), "one in a minute, for each lease")
	})
}

type errString string

func (e errString) Error() string { return string(e) }
