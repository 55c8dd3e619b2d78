package leaderforlife_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

func TestFirstComeFirstServed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.pod("a")
		w.start(a)
		require.Equal(t, []string{"a"}, w.leaders())
		lock := w.lock()
		assert.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "a", UID: a.UID}},
			lock.OwnerReferences)
		assert.Equal(t, "life", lock.Labels["bellwether.dev/lock"])
		assert.Equal(t, string(lock.UID), w.getPod("a").Labels[labelKey], "the leader can be found by its label")

		b := w.start(w.pod("b"))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a"}, w.leaders())
		assert.Equal(t, "a: its Pod runs", b.why())
		assert.Equal(t, lock, w.lock(), "nothing is renewed")
		b.cancel()
		assert.ErrorIs(t, b.returned(), context.Canceled)
	})
}

func TestSuccessorLeadsAsSoonAsTheLeaderHasEnded(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"deleted":       func(w *world) { w.deletePod("a") }, // no candidate needs the collector
		"Succeeded":     func(w *world) { w.setStatus("a", over(corev1.PodSucceeded, "")) },
		"Failed":        func(w *world) { w.setStatus("a", over(corev1.PodFailed, "")) },
		"evicted":       func(w *world) { w.setStatus("a", over(corev1.PodFailed, "Evicted")) },
		"preempted":     func(w *world) { w.setStatus("a", over(corev1.PodFailed, "Preempting")) },
		"node shutdown": func(w *world) { w.setStatus("a", over(corev1.PodFailed, "NodeShutdown")) },
		"rejected": func(w *world) {
			w.setStatus("a", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "UnexpectedAdmissionError"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.start(w.pod("a"))
				require.Equal(t, []string{"a"}, w.leaders())
				w.start(w.pod("b"))
				require.Equal(t, []string{"a"}, w.leaders())
				a.exit()
				end(w)
				start := time.Now()
				require.Equal(t, []string{"b"}, w.leaders())
				assert.Zero(t, time.Since(start), "nothing is waited for but events")
				assert.Equal(t, "b", w.lock().OwnerReferences[0].Name)
			})
		})
	}
}

// A candidate that races with the collector for the lock pauses once, as after any failed request.
func TestSuccessorLeadsWhenTheLockWasCollected(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		w.start(w.pod("b"))
		require.Equal(t, []string{"a"}, w.leaders())
		a.exit()
		w.deletePod("a")
		w.server.Collect()
		time.Sleep(150 * time.Millisecond)
		require.Equal(t, []string{"b"}, w.leaders())
		assert.Equal(t, "b", w.lock().OwnerReferences[0].Name)
	})
}

// A terminal phase proves nothing while a container is reported to run: the control plane sets it
// for a lost node.
func TestTerminalPodWithARunningContainerMayLead(t *testing.T) {
	for kind, set := range map[string]func(*corev1.PodStatus, []corev1.ContainerStatus){
		"container":      func(s *corev1.PodStatus, c []corev1.ContainerStatus) { s.ContainerStatuses = c },
		"init container": func(s *corev1.PodStatus, c []corev1.ContainerStatus) { s.InitContainerStatuses = c },
		"ephemeral container": func(s *corev1.PodStatus, c []corev1.ContainerStatus) {
			s.EphemeralContainerStatuses = c
		},
	} {
		t.Run(kind, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.start(w.pod("a"))
				require.Equal(t, []string{"a"}, w.leaders())
				b := w.start(w.pod("b"))
				failed := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
				set(&failed, running.ContainerStatuses)
				w.setStatus("a", failed)
				time.Sleep(time.Hour)
				require.Equal(t, []string{"a"}, w.leaders())
				assert.Contains(t, b.why(), "its Pod is Failed, but container main was last reported to run")
				w.setStatus("a", over(corev1.PodFailed, "Evicted"))
				require.Equal(t, []string{"a", "b"}, w.leaders())
			})
		})
	}
}

// The collector removes the lock of a Pod that is deleted in the foreground while it still runs.
// Neither a waiting nor a new candidate leads before that Pod's end.
func TestForegroundDeletionDoesNotMakeTwoLeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a", kubelet))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.start(w.pod("b"))
		synctest.Wait()
		w.deleteForeground("a")
		newcomer := w.start(w.pod("c"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a"}, w.leaders())
		for _, p := range []*replica{b, newcomer} {
			assert.Contains(t, p.why(), "a: its Pod is terminating, with grace until 2000-")
		}
		assert.Nil(t, w.lock(), "no Pod even tries")
		a.exit()
		w.letGo("a")
		require.Len(t, w.leaders(), 1)
	})
}

// A deletion of the lock by hand does not make two leaders.
func TestDeletedLockDoesNotMakeTwoLeaders(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		w.start(w.pod("b"))
		synctest.Wait()
		require.NoError(t, w.client.CoreV1().ConfigMaps("ns").Delete(t.Context(), lockName, metav1.DeleteOptions{}))
		w.start(w.pod("c"))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a"}, w.leaders())
	})
}

// A Pod that made the lock before it saw an earlier leader by its label waits for that leader, and
// then leads.
func TestOwnerOfTheLockWaitsForALabelledPod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		b := w.process(w.pod("b"))
		late := b.hold(w, "configmaps", "create")
		b.start(w)
		synctest.Wait()
		require.True(t, late.isHeld())
		b.exit() // and starts again later; its request is under way

		w.start(w.pod("a", kubelet))
		require.Equal(t, []string{"a"}, w.leaders())
		w.deleteForeground("a")
		late.send()
		assert.Equal(t, "b", w.lock().OwnerReferences[0].Name)
		again := w.start(b.pod)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"a"}, w.leaders())
		assert.Contains(t, again.why(), "a: its Pod is terminating, with grace until")
		w.letGo("a")
		require.Equal(t, []string{"b", "a"}, reversed(w.leaders()))
	})
}

func reversed(names []string) []string {
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

func TestRestartedContainerLeadsOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.pod("a")
		first := w.start(a)
		require.Equal(t, []string{"a"}, w.leaders())
		w.start(w.pod("b"))
		synctest.Wait()
		lock := w.lock()
		first.exit()
		time.Sleep(time.Minute)
		require.Empty(t, w.leaders(), "no Pod leads while the leader's container is down")
		from := w.served()
		second := w.start(a)
		require.Equal(t, []string{"a"}, w.leaders())
		assert.Equal(t, lock, w.lock())
		for _, r := range w.requests(second, from) {
			assert.NotContains(t, r, "PATCH")
		}
	})
}

// StatefulSets make Pods of the same name.
func TestPodOfTheSameNameDoesNotInherit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		old := w.pod("a", kubelet)
		w.start(old)
		require.Equal(t, []string{"a"}, w.leaders())
		earlier := w.lock()
		w.update("a", func(p *corev1.Pod) { p.Finalizers = nil })
		w.deletePod("a") // by force: its process goes on
		renamed := w.pod("a")
		w.start(renamed)
		require.Equal(t, []string{"a", "a"}, w.leaders(), "deletion is an admin's assertion that it has ended")
		assert.NotEqual(t, earlier.UID, w.lock().UID, "by a lock of its own")
		assert.Equal(t, renamed.UID, w.lock().OwnerReferences[0].UID)
	})
}

func TestPodThatIsEndingDoesNotBeginToLead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pod("a", kubelet)
		w.deletePod("a")
		a := w.start(w.getPod("a"))
		time.Sleep(time.Minute)
		assert.Empty(t, w.leaders())
		assert.Nil(t, w.lock())
		assert.Contains(t, a.why(), "this Pod is ending")
	})
}

func TestProcessThatHasOutlivedItsPodGivesUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a"))
		require.Equal(t, []string{"a"}, w.leaders())
		b := w.start(w.pod("b"))
		synctest.Wait()
		w.deletePod("b")
		w.pod("b") // another one
		w.deletePod("a")
		assert.ErrorIs(t, b.returned(), leader.ErrPodGone)
	})
}

func TestSecondProcessOfAPodWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.pod("a")
		first := w.start(a)
		require.Equal(t, []string{"a"}, w.leaders())
		second := w.start(a)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.leaders())
		require.False(t, second.leads())
		assert.Len(t, second.logs.FilterMessageSnippet("another process of this Pod").All(), 1, "said once")
		first.exit()
		time.Sleep(2 * time.Second)
		require.True(t, second.leads())
	})
}

func TestLeaseAsLock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(w.pod("a"), leader.WithLease())
		require.Equal(t, []string{"a"}, w.leaders())
		lock, err := w.client.CoordinationV1().Leases("ns").Get(t.Context(), lockName, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "life", lock.Labels["bellwether.dev/lock"])
		assert.Equal(t, int32(1<<31-1), *lock.Spec.LeaseDurationSeconds,
			"client-go's elector would take one that expires")
		assert.Equal(t, "a/"+string(a.pod.UID), *lock.Spec.HolderIdentity)
		assert.Equal(t, a.pod.UID, lock.OwnerReferences[0].UID)
		w.start(w.pod("b"), leader.WithLease())
		require.Equal(t, []string{"a"}, w.leaders())
		w.deletePod("a")
		a.exit()
		require.Equal(t, []string{"b"}, w.leaders())
	})
}

// The Lease of a leader for life is never renewed. Electors must not take it for expired.
func TestElectorsLeaveALockForLifeAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a"), leader.WithLease())
		require.Equal(t, []string{"a"}, w.leaders())
		ours, err := leaderelection.New(w.client, leaderelection.Config{Namespace: "ns", Name: lockName})
		require.NoError(t, err)
		_, err = ours.TryAcquire(t.Context())
		require.ErrorIs(t, err, leaderelection.ErrForLife)

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := false
		foreign, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: lockName}, Client: w.client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: "foreign"},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: clientgo.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { began = true },
				OnStoppedLeading: func() {},
			},
		})
		require.NoError(t, err)
		foreign.Run(klog.NewContext(ctx, klog.Logger{})) // without logs
		assert.False(t, began)
	})
}

func TestForeignLocks(t *testing.T) {
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "u"}
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "u"}
	for name, c := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		want        string
	}{
		"no owner": {want: "configmaps ns/l: leaderforlife: not a lock for life: it has no owner, so nothing tells " +
			"which Pod " +
			"leads; if you know that none does, delete it"},
		"another kind": {
			owners: []metav1.OwnerReference{set},
			want:   "its owner must be one Pod (got 1 owners, the first is ReplicaSet x of apps/v1)",
		},
		"several owners": {owners: []metav1.OwnerReference{pod, set}, want: "its owner must be one Pod (got 2 owners"},
		"malformed": {
			annotations: map[string]string{"leader.bellwether.dev/pod": "x"},
			want:        `annotation leader.bellwether.dev/pod: must be <name>/<uid> of a Pod (got "x")`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				_, err := w.client.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{
						Name: lockName, OwnerReferences: c.owners,
						Annotations: c.annotations,
					},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				before := w.lock()
				a := w.start(w.pod("a"))
				err = a.returned()
				assert.ErrorIs(t, err, leader.ErrForeignLock)
				assert.ErrorContains(t, err, "leaderforlife: lock l: ")
				assert.ErrorContains(t, err, c.want)
				assert.Equal(t, before, w.lock(), "never written")
			})
		})
	}
	t.Run("a Lease of an elector", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			require.NoError(t, createLease(t, w))
			a := w.start(w.pod("a"), leader.WithLease())
			assert.ErrorContains(t, a.returned(), "leases ns/l: leaderforlife: not a lock for life: it has no label "+
				"bellwether.dev/lock=life")
		})
	})
}

// Twenty candidates race for each succession: after deletion of the Pod, after its end, and while
// the lock is being removed.
func TestRacingCandidates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const candidates, successions = 20, 20
		for i := range candidates {
			p := w.process(w.pod(fmt.Sprint("p", i)))
			p.connection.Inject(apisim.Faults{
				Latency:  time.Duration(i+1) * time.Millisecond,
				WatchLag: time.Duration(20-i) * time.Millisecond,
			})
			p.start(w)
		}
		led := map[string]bool{}
		var locks []types.UID
		for n := range successions {
			time.Sleep(time.Minute)
			leaders := w.leaders()
			require.Len(t, leaders, 1)
			name := leaders[0]
			require.False(t, led[name])
			led[name] = true
			locks = append(locks, w.lock().UID)
			require.Equal(t, name, w.lock().OwnerReferences[0].Name)
			w.mu.Lock()
			i := slices.IndexFunc(w.all, func(p *replica) bool { return p.pod.Name == name })
			p := w.all[i]
			w.mu.Unlock()
			p.exit()
			switch n % 3 {
			case 0:
				w.setStatus(name, over(corev1.PodSucceeded, ""))
			case 1:
				w.deletePod(name)
			case 2:
				w.deletePod(name)
				w.server.Collect()
			}
			next := w.process(w.pod(fmt.Sprint("q", n)))
			next.start(w)
		}
		slices.Sort(locks)
		assert.Len(t, slices.Compact(locks), successions)
	})
}
