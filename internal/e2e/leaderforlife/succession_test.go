package leaderforlife_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// TestDeletedLeaderIsSucceeded is not parallel: it measures milliseconds.
func TestDeletedLeaderIsSucceeded(t *testing.T) {
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		a := c.candidate(c.pod("a", goodNode))
		c.requireLead(a)
		assert.Equal(t, a.pod.UID, c.lock().OwnerReferences[0].UID)
		b := c.candidate(c.pod("b", goodNode))
		c.requireWaiting(b, "its Pod runs")
		c.requireIdle(b, a)

		require.NoError(t, c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
		gone := c.requireDeleted(a.pod)
		c.requireLead(b)
		since, _ := b.leads()
		t.Logf("led %v after the Pod was gone", since.Sub(gone.at))
		assert.Less(t, since.Sub(gone.at), c.gauge.Slack(gone.at))
		assert.Greater(t, version(t, c.lock().ResourceVersion), gone.version)
	})
}

// requireIdle requires that a waiting candidate sends no requests before the end of the leader's
// Pod.
func (c *cluster) requireIdle(p *candidate, leading *candidate) {
	c.t.Helper()
	var watching time.Time
	require.Eventually(c.t, func() bool {
		watches, settled := 0, false
		for _, e := range c.requests() {
			switch {
			case e.Verb == "watch" && e.Stage == "ResponseStarted":
				watches, watching = watches+1, e.At
			case e.Verb == "list" && e.Resource == "pods" && watches >= 2 && e.Received.After(watching):
				settled = true // the last request of a round
			}
		}
		return settled
	}, patience, poll, "%s does not watch", p.pod.Name)
	before := len(c.requests())
	const happenings = 20
	for n := range happenings {
		pod := c.get(leading.pod.Name)
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "n", strconv.Itoa(n))
		_, err := c.client.CoreV1().Pods(c.namespace).Update(c.t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(c.t, err)
	}
	require.Eventually(c.t, func() bool { // or the log is behind
		events, err := shared.Audit()
		require.NoError(c.t, err)
		n := 0
		for _, e := range events {
			if e.Namespace == c.namespace && e.User == "admin" && e.Verb == "update" && e.Resource == "pods" &&
				e.Subresource == "" {
				n++
			}
		}
		return n == happenings
	}, patience, poll)
	assert.Len(c.t, c.requests(), before)
}

// requests are those of all candidates.
func (c *cluster) requests() (sent []e2e.AuditEvent) {
	events, err := shared.Audit()
	require.NoError(c.t, err)
	for _, e := range events {
		if e.User == "system:serviceaccount:"+c.namespace+":default" {
			sent = append(sent, e)
		}
	}
	return sent
}

// The collector removes the lock of a Pod deleted in the foreground while the Pod still runs.
func TestForegroundDeletionDoesNotMakeTwoLeaders(t *testing.T) {
	t.Parallel()
	foreground := metav1.DeletePropagationForeground
	options := metav1.DeleteOptions{PropagationPolicy: &foreground}
	for kind, c := range map[string]struct {
		create func(c *cluster)
		delete func(c *cluster) error
	}{
		"Pod": {
			create: func(c *cluster) { c.pod("lead", handNode) },
			delete: func(c *cluster) error {
				return c.client.CoreV1().Pods(c.namespace).Delete(c.t.Context(), "lead", options)
			},
		},
		"ReplicaSet": {
			create: func(c *cluster) { c.replicaSet() },
			delete: func(c *cluster) error {
				return c.client.AppsV1().ReplicaSets(c.namespace).Delete(c.t.Context(), "lead", options)
			},
		},
		"Deployment": {
			create: func(c *cluster) { c.deployment() },
			delete: func(c *cluster) error {
				return c.client.AppsV1().Deployments(c.namespace).Delete(c.t.Context(), "lead", options)
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				cluster := newCluster(t)
				c.create(cluster)
				first := cluster.candidate(cluster.report(cluster.find("lead"), running))
				cluster.requireLead(first)
				standby := cluster.candidate(cluster.pod("standby", handNode))
				cluster.requireWaiting(standby, "its Pod runs")

				// The collector is done with a Pod that nothing blocks, and may then find that the
				// lock still has an owner.
				unblock := cluster.block(first.pod)
				start := time.Now()
				require.NoError(t, c.delete(cluster))
				require.Eventually(t, func() bool { return cluster.lock() == nil }, patience, poll, "the lock stays")
				unblock()
				t.Logf("the lock was gone %v after the deletion", time.Since(start))
				assert.Equal(t, corev1.PodRunning, cluster.get(first.pod.Name).Status.Phase)
				newcomer := cluster.candidate(cluster.pod("newcomer", handNode))
				for _, p := range []*candidate{standby, newcomer} {
					cluster.requireWaiting(p, first.pod.Name, "its Pod is terminating, with grace until")
				}
				assert.Nil(t, cluster.lock())

				cluster.finish(first.pod)
				gone := cluster.requireDeleted(first.pod)
				cluster.requireLead(standby, newcomer)
				assert.Greater(t, version(t, cluster.lock().ResourceVersion), gone.version,
					"the next lock is younger than the Pod is gone")
			})
		})
	}
}

// TestEndedLeaderIsSucceededThoughItsPodIsStillThere is not parallel: it measures milliseconds.
func TestEndedLeaderIsSucceededThoughItsPodIsStillThere(t *testing.T) {
	for name, status := range map[string]corev1.PodStatus{
		"evicted":       over(corev1.PodFailed, "Evicted"),
		"Succeeded":     over(corev1.PodSucceeded, ""),
		"Failed":        over(corev1.PodFailed, ""),
		"node shutdown": over(corev1.PodFailed, "NodeShutdown"),
		"preempted":     over(corev1.PodFailed, "Preempting"),
	} {
		t.Run(name, func(t *testing.T) {
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t)
				a := c.candidate(c.pod("a", handNode))
				c.requireLead(a)
				b := c.candidate(c.pod("b", handNode))
				c.requireWaiting(b, "its Pod runs")
				c.report(a.pod,
					corev1.PodStatus{
						Phase: status.Phase, Reason: status.Reason,
						ContainerStatuses: running.ContainerStatuses,
					})
				c.requireWaiting(b, "container main was last reported to run")
				c.report(a.pod, status)
				ended := time.Now()
				c.requireLead(b)
				since, _ := b.leads()
				t.Logf("led %v after the kubelet's report", since.Sub(ended))
				assert.Less(t, since.Sub(ended), c.gauge.Slack(ended))
				assert.Equal(t, a.pod.UID, c.get("a").UID, "no candidate deletes Pods")
			})
		})
	}
}

// A StatefulSet creates another Pod of the same name.
func TestPodOfTheSameNameDoesNotInherit(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.statefulSet()
		old := c.report(c.find("lead"), running)
		c.requireLead(c.candidate(old))
		lock := c.lock()
		waits := c.candidate(c.pod("b", handNode))
		c.requireWaiting(waits, "lead-0")
		c.finish(old) // by force
		c.requireDeleted(old)
		var next *corev1.Pod
		require.Eventually(t, func() bool {
			next = c.find("lead")
			return next.UID != old.UID
		}, patience, poll)
		require.Equal(t, old.Name, next.Name)
		again := c.candidate(c.report(next, running))
		led := c.requireLead(waits, again)
		assert.NotEqual(t, lock.UID, c.lock().UID)
		assert.Equal(t, led.pod.UID, c.lock().OwnerReferences[0].UID)

		// A process of the Pod before, by its name, which is now that of the other.
		_, err := shared.ServiceAccount(t.Context(), c.namespace, "default", old)
		assert.Error(t, err, "its token is worth nothing any more")
		config, err := shared.ServiceAccount(t.Context(), c.namespace, "default", next)
		require.NoError(t, err)
		err = leader.Become(t.Context(), lockName, leader.WithConfig(config), leader.WithNamespace(c.namespace),
			leader.WithPodName("b"))
		assert.ErrorIs(t, err, leader.ErrPodGone, "the token is the Pod's, whatever the name")
	})
}

func TestRestartedContainerLeadsOn(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		pod := c.pod("a", handNode)
		d := c.daemon("first", pod)
		d.requireLine(t, `"working"`)
		lock := c.lock()
		b := c.candidate(c.pod("b", handNode))
		c.requireWaiting(b, "its Pod runs")
		second := c.daemon("second", pod) // beside the first, as a second container of the Pod
		second.requireLine(t, "waiting for another process of this Pod")

		require.NoError(t, d.Kill())
		second.requireLine(t, `"working"`)
		assert.Equal(t, lock.UID, c.lock().UID)
		_, leads := b.leads()
		assert.False(t, leads)
		require.NoError(t, second.Kill())
	})
}
