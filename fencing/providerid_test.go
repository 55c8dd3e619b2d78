package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// provide gives a node a provider ID, as a kubelet may do once.
func (w *world) provide(node, instance string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"providerID":"rack:///%s"}}`, instance), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// byInstance has the plugs of nodes be those that their provider IDs name.
func (w *world) byInstance() {
	for _, action := range []string{"off", "on"} {
		w.change("fence-config-type-worker", "fence-method-plug-"+action,
			"template=fence-method-template-rack\nplug={{.InstanceID}}\naction="+action+"\n")
	}
}

// A kubelet without a provider ID takes that of another node. The leader of that time, and the next
// one that sees both at once in any order, know which node it belongs to. That node is fenced, and
// the other one reports what is wrong.
func TestProviderIDThatIsClaimedTwice(t *testing.T) {
	for _, c := range []struct{ owner, thief string }{{"n1", "n3"}, {"n3", "n1"}} {
		for name, next := range variants(map[string]bool{"the same leader": false, "the next leader": true}) {
			t.Run(c.owner+" and "+c.thief+"/"+name, func(t *testing.T) {
				inWorld(t, 4, func(w *world) {
					breaches := w.referee()
					w.byInstance()
					for _, node := range []string{c.owner, "n2", "n4"} {
						w.provide(node, node)
					}
					w.pod("db-0", c.owner)
					a := w.start("a", nil)
					wait(w.ctx, settled)
					require.Equal(t, corev1.ConditionTrue, w.fenceReady(c.owner).Status, w.fenceReady(c.owner).Message)
					if next {
						a.stop()
						w.provide(c.thief, c.owner)
						wait(w.ctx, time.Minute)
						a = w.start("b", nil)
					} else {
						w.provide(c.thief, c.owner)
					}
					defer a.stop()
					wait(w.ctx, 2*time.Minute)
					assert.Equal(t, corev1.ConditionTrue, w.fenceReady(c.owner).Status, w.fenceReady(c.owner).Message)
					assert.Equal(t, corev1.ConditionFalse, w.fenceReady(c.thief).Status)
					assert.Contains(t, w.fenceReady(c.thief).Message, "plug must be of one node, and is that of n1, n3")
					w.lose(c.owner)
					w.eventually(10*time.Minute, "the pod is released",
						func() bool { return len(w.pods(c.owner)) == 0 })
					w.ends(c.owner, v1alpha1.PhaseFinal)
					w.cutOff(c.thief, true)
					wait(w.ctx, 10*time.Minute)
					assert.Equal(t, 1, w.rack.Count(c.owner, "command", agent.ActionOff), "of the owner's fence")
					assert.Empty(t, breaches())
				})
			})
		}
	}
}

// A claim to an instance that is not there, or whose node does not work, is not believed before
// there is another.
func TestProviderIDOfNothingIsNotVouchedFor(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.byInstance()
		w.provide("n1", "n1")
		w.provide("n2", "later")
		w.provide("n3", "n3")
		w.rack.Break("n3", fencingtest.Fault{Unreadable: true})
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		const label = "fencing.bellwether.node-restriction.kubernetes.io/provider-id"
		assert.Len(t, w.node("n1").Labels[label], 40)
		assert.NotContains(t, w.node("n2").Labels, label)
		assert.NotContains(t, w.node("n3").Labels, label)
		w.rack.Break("n3", fencingtest.Fault{})
		w.eventually(2*time.Minute, "it is read, and believed", func() bool { return w.node("n3").Labels[label] != "" })
		assert.NotEqual(t, w.node("n1").Labels[label], w.node("n3").Labels[label])
	})
}

// Nodes that are fenced by what a ConfigMap says have no need for it.
func TestProviderIDsThatNoDeviceIsFoundBy(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.provide("n1", "n1")
		a := w.start("a", nil)
		defer a.stop()
		wait(w.ctx, settled)
		assert.Len(t, w.node("n1").Labels, 1, w.node("n1").Labels)
	})
}

// The type of a node is by a label that its kubelet may not write, if that is asked for.
func TestTypeLabel(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		const label = "node-restriction.kubernetes.io/type"
		_, err := w.client.CoreV1().Nodes().Patch(w.ctx, "n1", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:"worker"}}}`, label), metav1.PatchOptions{})
		require.NoError(t, err)
		a := w.start("a", func(c *fencing.Config) { c.TypeLabel = label })
		defer a.stop()
		wait(w.ctx, settled)
		assert.Equal(t, corev1.ConditionTrue, w.fenceReady("n1").Status)
		assert.Equal(t, corev1.ConditionFalse, w.fenceReady("n2").Status,
			"what it says under the label type does not count")
		assert.Contains(t, w.fenceReady("n2").Message, "built-in")
	})
}
