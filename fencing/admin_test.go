//go:build !race

package fencing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// middle is an incident of n1 that is under way, and what an admin does then.
type middle struct {
	*world
	reached chan struct{} // the phase has been, in which it is done
}

// deeds are what people do, and what is so in the end because of it.
var deeds = map[string]struct {
	do   func(*middle)
	then func(*middle)
}{
	"stops and holds": {
		do: func(i *middle) { i.annotate("n1", v1alpha1.AnnotationStop, "hold") },
	},
	"stops, the old way": {
		do: func(i *middle) { i.annotate("n1", v1alpha1.AnnotationStop, "true") },
	},
	"stops and restores": {
		do:   func(i *middle) { i.annotate("n1", v1alpha1.AnnotationStop, "restore") },
		then: func(i *middle) { assert.True(i.t, i.rack.On("n1"), "what was switched off stays so") },
	},
	"pauses for a while": {
		do: func(i *middle) {
			i.annotate("n1", v1alpha1.AnnotationPaused, "true")
			wait(i.ctx, time.Minute) // what had been begun is over
			before := i.commands()
			wait(i.ctx, 20*time.Minute)
			assert.Equal(i.t, before, i.commands(), "devices were switched during the pause")
			i.annotate("n1", v1alpha1.AnnotationPaused, "false")
		},
		then: (*middle).asIfNothing,
	},
	"confirms that it has pulled the plug": {
		do: func(i *middle) {
			if i.phase("n1") != v1alpha1.PhaseFinal { // then it would be a failure of its own
				i.rack.Set("n1", false)
			}
			i.annotate("n1", v1alpha1.AnnotationConfirmOff, "1")
		},
	},
	"confirms another incident": {
		do:   func(i *middle) { i.annotate("n1", v1alpha1.AnnotationConfirmOff, "7") },
		then: (*middle).asIfNothing,
	},
	"restarts another incident": {
		do:   func(i *middle) { i.annotate("n1", v1alpha1.AnnotationRestart, "7") },
		then: (*middle).asIfNothing,
	},
	"deletes the record": {
		do: func(i *middle) {
			uid := i.fence("n1").UID
			i.delete()
			i.eventually(10*time.Minute, "the record is gone",
				func() bool { f := i.fence("n1"); return f == nil || f.UID != uid })
			i.eventually(10*time.Minute, "a failing node has another",
				func() bool { f := i.fence("n1"); return f != nil && f.UID != uid || i.ready() })
		},
	},
	"deletes the node": {
		do: func(i *middle) {
			require.NoError(i.t, i.client.CoreV1().Nodes().Delete(i.ctx, "n1", metav1.DeleteOptions{}))
		},
		then: func(i *middle) { i.deletable() },
	},
}

// ended says that nothing more is to happen. A failing node whose record was deleted gets another.
func (i *middle) ended() bool {
	switch i.phase("n1") {
	case v1alpha1.PhaseGivenUp, v1alpha1.PhaseFinal:
		return true
	case "":
		return i.ready()
	}
	return false
}

// ready says that the node is Ready, or gone.
func (i *middle) ready() bool {
	n, err := i.client.CoreV1().Nodes().Get(i.ctx, "n1", metav1.GetOptions{})
	return apierrors.IsNotFound(err) || n.Status.Conditions[0].Status == corev1.ConditionTrue
}

func (i *middle) commands() int {
	return i.rack.Count("n1", "command", agent.ActionOff) + i.rack.Count("n1", "command", agent.ActionOn)
}

func (i *middle) delete() {
	err := i.fences.Delete(i.ctx, v1alpha1.Name("n1"), metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(i.t, err)
	}
}

func (i *middle) deletable() {
	i.delete()
	i.eventually(time.Minute, "the record is gone", func() bool { return i.fence("n1") == nil })
}

func (i *middle) asIfNothing() {
	i.requireFencedOnce("n1")
	assert.Equal(i.t, v1alpha1.PhaseFinal, i.phase("n1"))
}

// arrives waits until the record has been in the phase.
func (i *middle) arrives(phase v1alpha1.Phase) {
	i.t.Helper()
	for deadline := time.Now().Add(time.Hour); ; {
		select {
		case <-i.reached:
			return
		case <-time.After(poll):
			i.bootsIntoWork()
			require.True(i.t, time.Now().Before(deadline), "the fence does not come to %s", phase)
		}
	}
}

// bootsIntoWork has a machine that has lost its power be reachable from its next boot on.
func (i *middle) bootsIntoWork() {
	if !i.rack.On("n1") {
		i.cutOff("n1", false)
	}
}

// Whatever people do to a fence, in whichever phase: no pod is freed whose machine runs, no machine
// loses its power twice, the fence ends, and nothing happens afterwards.
func TestSimulatedAdmins(t *testing.T) {
	proof.Simulation(t)
	for _, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated, v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring,
		v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering, v1alpha1.PhaseError, v1alpha1.PhaseGivenUp,
		v1alpha1.PhaseFinal,
	} {
		for name, deed := range deeds {
			t.Run(string(phase)+"/"+name, func(t *testing.T) {
				t.Parallel()
				inWorld(t, 3, func(w *world) {
					i := &middle{world: w, reached: make(chan struct{})}
					breaches := w.referee()
					w.observe(func(c apisim.Change) {
						if c.After == nil || c.After.GetKind() != "NodeFence" {
							return
						}
						if now, _, _ := unstructured.NestedString(c.After.Content(), "status",
							"phase"); now == string(phase) {
							select {
							case <-i.reached:
							default:
								close(i.reached)
							}
						}
					})
					failing := phase == v1alpha1.PhaseError || phase == v1alpha1.PhaseGivenUp
					w.pod("db-0", "n1")
					// Watches are faster than answers: what this process writes may be gone before
					// it knows.
					c := w.start("a", nil,
						func(c *apisim.Client) { c.Inject(apisim.Faults{Latency: 50 * time.Millisecond}) })
					defer c.stop()
					wait(w.ctx, settled)
					w.rack.Break("n1", fencingtest.Fault{Slow: time.Second})
					if failing {
						w.rack.Break("n1", fencingtest.Fault{Ignore: true})
					}
					w.cutOff("n1", true)
					i.arrives(phase)
					deed.do(i)
					w.eventually(2*time.Hour, "the fence ends", func() bool {
						i.bootsIntoWork()
						return i.ended()
					})
					before := i.commands()
					wait(w.ctx, 10*time.Minute)
					assert.Equal(t, before, i.commands(), "something happened after the end")
					assert.Empty(t, breaches())
					if !failing {
						assert.LessOrEqual(t, w.rack.Count("n1", "command", agent.ActionOff), 1)
					}
					if n, err := w.client.CoreV1().Nodes().Get(w.ctx, "n1", metav1.GetOptions{}); err == nil {
						for _, taint := range n.Spec.Taints {
							assert.NotEqual(t, corev1.TaintNodeOutOfService, taint.Key)
						}
					}
					if deed.then != nil && !failing {
						deed.then(i)
					}
				})
			})
		}
	}
}
