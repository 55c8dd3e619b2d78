package command_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// What would strand objects, or do nothing, is refused before anything is written. A drained shard has
// no objects, and is shown.
func TestDrain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.configMaps(12)
		w.elect("one")
		a := w.replica("a", nil)
		w.after(10 * time.Second)
		for shard, problem := range map[string]string{
			"a": "no other shard could get its objects", "gone": `leases.coordination.k8s.io "gone" not found`,
			"daemon": "is not that of a shard",
		} {
			_, err := w.kubectl("drain", shard, "--confirm")
			assert.ErrorContains(t, err, problem, shard)
		}
		b := w.replica("b", nil)
		w.after(10 * time.Second)
		assert.Contains(t, w.require("drain", "b"), "objects go to a. Nothing was changed.")
		w.forbidden["list configmaps"] = true
		out, errOut, err := w.separately("drain", "b")
		require.NoError(t, err)
		assert.Contains(t, out, "its 0 objects go to a.")
		assert.Contains(t, errOut, "Not looked for, because you may not list them: configmaps.")
		clear(w.forbidden)
		w.forbidden["patch leases"] = true
		_, err = w.kubectl("drain", "b", "--confirm")
		assert.ErrorContains(t, err, "patch on resource leases of API group \"coordination.k8s.io\" in namespace ns")
		assert.Empty(t, w.writes)
		clear(w.forbidden)

		w.require("drain", "b", "--confirm")
		w.after(10 * time.Second)
		out = w.require("ring", "checksums")
		assert.Equal(t, []string{"b Ready,drained 0 0 0 2s"}, lines(out, "b"), out)
		assert.Contains(t, w.require("status"), "1/1, 1 drained")
		_, err = w.kubectl("drain", "b", "--confirm")
		assert.ErrorContains(t, err, "shard b is drained already. --undo takes that back")
		_, err = w.kubectl("drain", "a", "--confirm")
		assert.ErrorContains(t, err, "no other shard could get its objects")
		assert.Contains(t, w.require("plan", "checksums", "--with", "b"), "Members now: a. Then: a, b.")

		w.require("drain", "b", "--undo", "--confirm")
		w.after(10 * time.Second)
		assert.NotContains(t, w.require("ring", "checksums"), "b       Ready,")
		l, err := w.kube.CoordinationV1().Leases("ns").Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.False(t, shardlease.Drained(l))
		b.stop()
		a.stop()
		w.after(time.Second)
		_, err = w.kubectl("drain", "b", "--confirm")
		assert.ErrorContains(t, err, "shard b is Dead, and gets no objects")
	})
}
