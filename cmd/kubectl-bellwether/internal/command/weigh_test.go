package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/view"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// What would strand objects, or do nothing, is refused before anything is written. A drained shard has
// no objects, and is shown.
func TestAShardIsDrained(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.configMaps(12)
		w.elect("one")
		a := w.replica("a", nil)
		w.after(10 * time.Second)
		for shard, problem := range map[string]string{
			"a": "no other shard could get its objects", "gone": `leases.coordination.k8s.io "gone" not found`,
			"daemon": "is not that of a shard",
		} {
			_, err := w.kubectl("weigh", shard, "0", "--confirm")
			assert.ErrorContains(t, err, problem, shard)
		}
		b := w.replica("b", nil)
		w.after(10 * time.Second)
		out := w.require("weigh", "b", "0")
		assert.Len(t, lines(out, "b", "a"), 1, out)
		assert.Contains(t, out, "Shard b of ring checksums: weight 0 instead of 100, 0% of the objects instead of "+
			"50%. Nothing was changed.")
		w.forbidden["list configmaps"] = true
		out = w.require("weigh", "b", "0")
		assert.Contains(t, out, "0 of 0 objects move")
		assert.Contains(t, out, "Not looked for, because you may not list them: configmaps.")
		clear(w.forbidden)
		w.forbidden["patch leases"] = true
		_, err := w.kubectl("weigh", "b", "0", "--confirm")
		assert.ErrorContains(t, err, "patch on resource leases of API group \"coordination.k8s.io\" in namespace ns")
		assert.Empty(t, w.writes)
		clear(w.forbidden)

		w.require("weigh", "b", "0", "--confirm")
		w.after(10 * time.Second)
		out = w.require("ring", "checksums")
		assert.Equal(t, []string{"b Ready 0 (own 100) 0% 0 0 0 2s -"}, lines(out, "b"), out)
		assert.Contains(t, w.require("status"), "1/1, 1 drained")
		_, err = w.kubectl("weigh", "b", "0", "--confirm")
		assert.ErrorContains(t, err, "shard b has weight 0 already. --undo takes that back")
		_, err = w.kubectl("weigh", "a", "0", "--confirm")
		assert.ErrorContains(t, err, "no other shard could get its objects")
		assert.Contains(t, w.require("plan", "checksums", "--with", "b"), "Members now: a. Then: a, b.")

		w.require("weigh", "b", "--undo", "--confirm")
		w.after(10 * time.Second)
		assert.Len(t, lines(w.require("ring", "checksums"), "b", "Ready", "100", "50%"), 1)
		l, err := w.kube.CoordinationV1().Leases("ns").Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotContains(t, l.Annotations, shardlease.WeightAnnotation)
		_, err = w.kubectl("weigh", "b", "100", "--confirm")
		assert.ErrorContains(t, err, "shard b has weight 100 already")
		b.stop()
		a.stop()
		w.after(time.Second)
		_, err = w.kubectl("weigh", "b", "0", "--confirm")
		assert.ErrorContains(t, err, "shard b is Dead, and gets no objects")
	})
}

// A shard of a new version gets a few objects, then more, then none, each time as many as the command said
// beforehand. To change a weight, no right to read objects is needed.
func TestAShardIsWeighed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.configMaps(60)
		w.replica("a", nil)
		w.replicaOf(shardlease.Config{Identity: "canary", Weight: ptr.To(5), Version: "v2"}, nil)
		w.after(time.Minute)
		canary := func() view.Shard {
			var r view.Ring
			require.NoError(t, json.Unmarshal([]byte(w.require("ring", "checksums", "-o", "json")), &r))
			return *r.Shard("canary")
		}
		c := canary()
		assert.Equal(t, "v2", c.Version)
		assert.Equal(t, 5, c.Weight)
		assert.Nil(t, c.OwnWeight)
		assert.InDelta(t, 5./105, c.Share, 0.001)
		for _, step := range []struct{ weight, shown, share, what string }{
			{"50", "50 (own 5)", "33.3%", "weight 50 instead of 5, 33.3% of the objects instead of 4.8%."},
			{"0", "0 (own 5)", "0%", "weight 0 instead of 50, 0% of the objects instead of 33.3%."},
			{"--undo", "5", "4.8%", "weight 5 instead of 0, 4.8% of the objects instead of 0%."},
		} {
			out := w.require("weigh", "canary", step.weight)
			assert.Contains(t, out, "Shard canary of ring checksums: "+step.what)
			before := canary().Objects
			w.forbidden["list configmaps"] = true
			assert.Contains(t, w.require("weigh", "canary", step.weight, "--confirm"), step.what)
			clear(w.forbidden)
			w.after(time.Minute)
			moved := canary().Objects - before
			assert.NotZero(t, moved, step.weight)
			assert.Contains(t, out, fmt.Sprintf("%d of 60 objects move", max(moved, -moved)), step.weight)
			words := append([]string{"canary", "Ready"}, strings.Fields(step.shown+" "+step.share)...)
			assert.Len(t, lines(w.require("ring", "checksums"), words...), 1, step.weight)
		}
	})
}

// A weight that users write otherwise and that the sharder ignores is shown, and can be removed.
func TestAWeightThatIsIgnoredIsShown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		_, err := w.kube.CoordinationV1().Leases("ns").Patch(t.Context(), "a", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"ring.bellwether.dev/weight":"heavy"}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		out := w.require("ring", "checksums")
		assert.Len(t, lines(out, "a", "Ready", "100", "(annotation", "ignored)", "50%"), 1, out)
		assert.Contains(t, w.require("ring", "checksums", "-o", "wide"),
			`annotation ring.bellwether.dev/weight: must be a whole number from 0 to 1000 (got "heavy")`)
		w.require("weigh", "a", "--undo", "--confirm")
		assert.Len(t, lines(w.require("ring", "checksums"), "a", "Ready", "100", "50%"), 1)
	})
}

// A shard that has begun under the name since the command read its Lease is another one.
func TestAShardThatWasReplacedIsNotWeighed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, _ := w.settledRing()
		a.stop()
		leases := w.kube.CoordinationV1().Leases("ns")
		w.before = func(r *http.Request) {
			if r.Method != http.MethodPatch {
				return
			}
			l, err := leases.Get(t.Context(), "b", metav1.GetOptions{})
			require.NoError(t, err)
			require.NoError(t, leases.Delete(t.Context(), "b", metav1.DeleteOptions{}))
			l.UID, l.ResourceVersion = "", ""
			_, err = leases.Create(t.Context(), l, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		_, err := w.kubectl("weigh", "b", "5", "--confirm")
		assert.ErrorContains(t, err, "metadata.uid: Invalid value")
		l, err := leases.Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.NotContains(t, l.Annotations, shardlease.WeightAnnotation)
	})
}

func TestWrongWeights(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		for problem, args := range map[string][]string{
			"needs either WEIGHT or --undo":                                     {"a"},
			"weigh: needs either WEIGHT or --undo":                              {"a", "5", "--undo"},
			`weigh: WEIGHT: must be a whole number from 0 to 1000 (got "1001")`: {"a", "1001"},
			`weigh: WEIGHT: must be a whole number from 0 to 1000 (got "5%")`:   {"a", "5%"},
			"accepts between 1 and 2 arg(s)":                                    {},
		} {
			_, err := w.kubectl(append([]string{"weigh", "--confirm"}, args...)...)
			assert.ErrorContains(t, err, problem)
		}
		assert.Empty(t, w.writes)
	})
}
