package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// The certificates of the kubelets expire, one each 10 minutes. Their machines work, and no fence brings a node
// back: after two, an admin has to look.
func TestFencesThatDoNotHelp(t *testing.T) {
	inWorld(t, 12, func(w *world) {
		breaches := w.referee()
		a := w.start("a", nil)
		defer func() { a.stop() }()
		wait(w.ctx, settled)
		cut := func() (cut []string) {
			for i := range 12 {
				if node := fmt.Sprintf("n%d", i+1); w.rack.Count(node, "power", agent.ActionOff) > 0 {
					cut = append(cut, node)
				}
			}
			return cut
		}
		held := func(node string) bool {
			f := w.fence(node)
			return f != nil && f.Status.Hold != nil && f.Status.Hold.Reason == "NoReturn"
		}
		for i := range 5 {
			w.pod(fmt.Sprintf("db-%d", i), fmt.Sprintf("n%d", i+1))
			w.cutOff(fmt.Sprintf("n%d", i+1), true)
			wait(w.ctx, 10*time.Minute)
		}
		wait(w.ctx, time.Hour)
		assert.LessOrEqual(t, len(cut()), 3, "the third may begin before the second is known not to help")
		assert.True(t, held("n5"))
		assert.Contains(t, w.fence("n5").Status.Hold.Message, "did not return: fences may not help")
		assert.Len(t, w.pods("n5"), 1)

		a.stop()
		a = w.start("b", nil) // the next leader knows it from the records
		wait(w.ctx, 20*time.Minute)
		assert.True(t, held("n5"))

		w.annotate("n5", v1alpha1.AnnotationRestart, "1") // an admin has looked
		w.eventually(30*time.Minute, "the machine of the fence that an admin has restarted is cut",
			func() bool { return w.rack.Count("n5", "power", agent.ActionOff) == 1 })
		require.True(t, held("n4"))

		for i := range 12 { // there are certificates again
			w.cutOff(fmt.Sprintf("n%d", i+1), false)
		}
		for _, node := range []string{"n1", "n4", "n5"} {
			w.ends(node, v1alpha1.PhaseFinal)
		}
		w.cutOff("n6", true)
		w.eventually(30*time.Minute, "the next lost node is fenced",
			func() bool { return w.rack.Count("n6", "power", agent.ActionOff) == 1 })
		assert.Empty(t, breaches())
	})
}
