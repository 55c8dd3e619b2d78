package fencing_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// leaving has an autoscaler mark a node, or take the mark away.
func (w *world) leaving(node string, is bool) {
	w.t.Helper()
	patch := `{"spec":{"taints":null}}`
	if is {
		patch = `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`
	}
	_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// An autoscaler marks a dead node for 15 s in the middle of its fence, and changes its mind.
func TestNodeThatIsToBeRemovedForAMomentIsFenced(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.ends("n1", v1alpha1.PhaseIsolated)
		w.leaving("n1", true)
		wait(w.ctx, 15*time.Second)
		w.ends("n1", v1alpha1.PhaseGivenUp)
		w.leaving("n1", false)
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		assert.Empty(t, breaches())
	})
}

// TestRecordOfANodeThatWasRemoved has a human remove a Node whose power stays off, after the release.
// Nothing is left to do, also for the next leader, which has no configuration of that node. The
// record goes when its history is over. A node of that name that comes later is fenced.
func TestRecordOfANodeThatWasRemoved(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.mu.Lock()
		for _, m := range w.machines {
			m.heartbeat = 3 * silence / 4 // for more than a day: most of what happens would be heartbeats
		}
		w.mu.Unlock()
		breaches := w.referee()
		w.wired("mark-unschedulable", "n1-off", "", "power_wait=20s\npower_on=never\n")
		w.pod("db-0", "n1")
		r := &told{}
		events := func(c *fencing.Config) { c.Events, c.Logger, c.History = r, nil, 3*time.Hour }
		a := w.start("a", events)
		wait(w.ctx, settled)
		w.lose("n1")
		w.ends("n1", v1alpha1.PhaseGivenUp)
		require.Empty(t, w.pods("n1"))
		require.NoError(t, w.client.CoreV1().Nodes().Delete(w.ctx, "n1", metav1.DeleteOptions{}))
		wait(w.ctx, time.Minute)
		a.stop()

		b := w.start("b", events)
		defer b.stop()
		wait(w.ctx, 150*time.Minute)
		require.NotNil(t, w.fence("n1"))
		wait(w.ctx, time.Hour)
		require.Nil(t, w.fence("n1"))
		assert.Zero(t, r.count("Warning GivenUp"))

		w.rack.Set("n1", true)
		wait(w.ctx, 2*boot)
		w.create("n1")
		w.pod("db-1", "n1")
		wait(w.ctx, time.Hour)
		w.lose("n1")
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		assert.Empty(t, breaches())
	})
}

// One that stays marked, and dead, is not fenced, and that is said again and again.
func TestNodeThatIsToBeRemovedAndStaysIsAnAlarm(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &told{}
		a := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.ends("n1", v1alpha1.PhaseIsolated)
		w.leaving("n1", true)
		w.ends("n1", v1alpha1.PhaseGivenUp)
		wait(w.ctx, 65*time.Minute)
		assert.GreaterOrEqual(t, r.count("Warning GivenUp"), 3, r.counts)
		w.untouched("n1")
	})
}

// The fence of a Node was given up. The Node is deleted, and made again, works, and is lost.
func TestNodeThatIsMadeAgainIsFenced(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.rack.Break("n1", fencingtest.Fault{Ignore: true})
		w.cutOff("n1", true)
		w.ends("n1", v1alpha1.PhaseGivenUp)
		w.rack.Break("n1", fencingtest.Fault{})
		require.NoError(t, w.client.CoreV1().Nodes().Delete(w.ctx, "n1", metav1.DeleteOptions{}))
		require.NoError(t,
			w.client.CoordinationV1().Leases("kube-node-lease").Delete(w.ctx, "n1", metav1.DeleteOptions{}))
		wait(w.ctx, 2*time.Minute)
		w.create("n1")
		w.cutOff("n1", false)
		wait(w.ctx, 2*time.Minute)
		assert.Empty(t, w.rack.Count("n1", "power", agent.ActionOff))
		w.pod("db-0", "n1")
		w.lose("n1")
		w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		assert.Empty(t, breaches())
	})
}

// unconfigured breaks the configuration of a node.
func (w *world) unconfigured(node string) {
	w.configure("fence-config-node-"+node, map[string]string{"config.properties": "rubbish"})
}

// A node without a configuration was away for a while, and is back: nothing was done, so there is
// nothing to undo, and no reason to count it among those that fail.
func TestNodeThatWasAwayWithoutAConfigurationIsHealthyAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.unconfigured("n1")
		w.pod("db-0", "n2")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the fence is held",
			func() bool { f := w.fence("n1"); return f != nil && f.Status.Hold != nil })
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		w.lose("n2")
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
	})
}

// The configuration has become wrong while a node was away: it is back with our taint on it, and
// waits for a human. The others do not.
func TestNodeThatWaitsForAHumanDoesNotKeepOthersWaiting(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.pod("db-0", "n2")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.ends("n1", v1alpha1.PhaseIsolated)
		w.unconfigured("n1")
		w.cutOff("n1", false)
		w.ends("n1", v1alpha1.PhaseRecovering)
		wait(w.ctx, time.Minute)
		w.lose("n2")
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
	})
}

// A fence is paused while its machine is off.
func TestFenceThatIsPausedHasNoSlot(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		w.pod("db-0", "n2")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
		w.annotate("n1", v1alpha1.AnnotationPaused, "true")
		w.lose("n2")
		w.eventually(5*time.Minute, "the pod is released", func() bool { return len(w.pods("n2")) == 0 })
		assert.False(t, w.rack.On("n1"))
	})
}

// detachesVolumes configures a node so that volumes are detached from it in the isolation step. It
// replaces what else is to be in its settings.
func (w *world) detachesVolumes(node string, others ...string) {
	data := map[string]string{"config.properties": strings.NewReplacer(append(others, "{{.NodeName}}", node,
		"isolation=mark-unschedulable", "isolation=mark-unschedulable detach-volumes")...).Replace(settings)}
	for _, action := range []string{"off", "on"} {
		data["fence-method-plug-"+action] = "template=fence-method-template-rack\nplug=" + node + "\naction=" + action +
			"\n"
	}
	w.configure("fence-config-node-"+node, data)
}

// attach attaches a volume to a node.
func (w *world) attach(name, node string) {
	_, err := w.client.StorageV1().VolumeAttachments().Create(w.ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "san", NodeName: node},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *world) attached(name string) bool {
	_, err := w.client.StorageV1().VolumeAttachments().Get(w.ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(w.t, err)
	}
	return err == nil
}

// daemon creates a pod of a DaemonSet, with a claim.
func (w *world) daemon(name, node string) {
	_, err := w.client.CoreV1().Pods("ns").Create(w.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "DaemonSet", Name: "logs", UID: "logs", Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{
			Name:         "data",
			VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Now()}},
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// A node is cut off, and runs. What Evict leaves there, or cannot see any more, still writes.
func TestVolumesStayWithALostNodeThatMayRun(t *testing.T) {
	for name, pod := range map[string]func(w *world){
		"a pod of a DaemonSet":          func(w *world) { w.daemon("logs-0", "n1") },
		"one that was deleted by force": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				breaches := w.referee()
				w.detachesVolumes("n1", "power_wait=20s", "power_wait=5m")
				pod(w)
				w.attach("va", "n1")
				a := w.start("a", nil)
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.ends("n1", v1alpha1.PhaseIsolated)
				wait(w.ctx, time.Minute)
				assert.True(t, w.rack.On("n1"))
				assert.True(t, w.attached("va"))
				w.eventually(10*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
				w.cutOff("n1", false)
				w.ends("n1", v1alpha1.PhaseFinal)
				assert.Empty(t, breaches())
			})
		})
	}
}

// Volumes of a node that works are detached only if nothing there uses them.
func TestVolumesOfAReadyNode(t *testing.T) {
	for name, c := range map[string]struct {
		use   func(w *world)
		stays bool
	}{
		"nothing uses them":      {func(*world) {}, false},
		"pods of a DaemonSet do": {func(w *world) { w.daemon("logs-0", "n1") }, true},
		"the kubelet has not unmounted one": {func(w *world) {
			n := w.node("n1")
			n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/san^1"}
			_, err := w.client.CoreV1().Nodes().UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
			require.NoError(w.t, err)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.detachesVolumes("n1")
				c.use(w)
				w.attach("va", "n1")
				r := &told{}
				a := w.start("a", func(config *fencing.Config) {
					config.Events = r
					config.Nodes.Triggers = []api.NodeCondition{{Type: "Corrupt", Status: corev1.ConditionTrue}}
				})
				defer a.stop()
				wait(w.ctx, settled)
				w.setCondition("n1", "Corrupt", corev1.ConditionTrue)
				if !c.stays {
					w.ends("n1", v1alpha1.PhaseIsolated)
					assert.False(t, w.attached("va"))
					return
				}
				w.eventually(5*time.Minute, "it is said", func() bool { return r.count("Warning MethodFailed") > 0 })
				wait(w.ctx, time.Minute)
				assert.True(t, w.attached("va"))
			})
		})
	}
}

// The seed's example detaches volumes in the isolation step. No kubelet ends the pods of a lost
// node, so that nothing can be detached before its machine has lost its power.
func TestVolumesOfALostNodeComeLooseWithTheRelease(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.detachesVolumes("n1")
		w.proxy = func(r *http.Request) *http.Response {
			if !strings.HasSuffix(r.URL.Path, "/eviction") {
				return nil
			}
			// and no kubelet does it
			return answer(http.StatusCreated, "application/json",
				`{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		}
		w.pod("db-0", "n1")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		w.lose("n1")
		w.eventually(time.Minute, "the pod is released", func() bool { return len(w.pods("n1")) == 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		assert.Empty(t, breaches())
	})
}

// Methods for a node that fails do not hold up the recovery of one that works.
func TestRecoveryDoesWithoutMethodsForAFailingNode(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.wired("mark-unschedulable", "n1-off n1-on", "clean-pods mark-schedulable detach-volumes", "power_wait=20s\n")
		w.start("c", nil)
		wait(w.ctx, settled)
		w.lose("n1")
		w.eventually(10*time.Minute, "n1 is booted", func() bool {
			f := w.fence("n1")
			return f != nil && f.Status.Phase == v1alpha1.PhaseBooting
		})
		w.pod("web", "n1")
		w.ends("n1", v1alpha1.PhaseFinal)
	})
}
