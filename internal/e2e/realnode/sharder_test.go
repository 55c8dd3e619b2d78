//go:build linux

package realnode_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// objectsOfARing are so many that each shard has some.
const objectsOfARing = 30

// ring is examples/sharding with objects. Each shard works on each of its objects all the time.
type ring struct{ *app }

// deployRing deploys one of the example's workloads, and waits until all its shards work.
func deployRing(t testing.TB, workload string) ring {
	t.Helper()
	r := ring{deploy(t, "sharding/rbac.yaml")}
	for i := range objectsOfARing {
		_, err := cluster.Client.CoreV1().ConfigMaps(r.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("o-%02d", i), Labels: map[string]string{"example.bellwether.dev/checksum": "wanted"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	r.apply("sharding/" + workload)
	r.eventually("three shards work", func() bool { return len(r.workers()) == 3 })
	return r
}

// workers are the Pods that own objects, by the shard label of those.
func (r ring) workers() map[string]int {
	r.t.Helper()
	objects, err := cluster.Client.CoreV1().ConfigMaps(r.namespace).List(r.t.Context(), metav1.ListOptions{
		LabelSelector: api.ShardLabel("checksums"),
	})
	require.NoError(r.t, err)
	workers := map[string]int{}
	for _, o := range objects.Items {
		workers[o.Labels[api.ShardLabel("checksums")]]++
	}
	return workers
}

// stint is work on one object, by the clock of the process.
type stint struct {
	pod          types.UID
	begun, ended float64
}

// stints are those of each object, in the order in which they began. One that a process has not
// ended lasts until its last line.
func (h *history) stints() map[string][]stint {
	all := map[string][]stint{}
	h.mu.Lock()
	pods := slices.Clone(h.pods)
	h.mu.Unlock()
	for _, pod := range pods {
		for _, run := range h.runs(pod.UID) {
			open := map[string]float64{}
			for _, l := range run {
				switch l.Message {
				case "work begins":
					open[l.Object] = l.At
				case "work has ended":
					all[l.Object] = append(all[l.Object], stint{pod.UID, open[l.Object], l.At})
					delete(open, l.Object)
				}
			}
			for object, begun := range open {
				all[object] = append(all[object], stint{pod.UID, begun, begun})
			}
		}
	}
	return all
}

// judge requires that no two processes have worked on one object at once, and that each object has
// been worked on by somebody after a moment.
func (r ring) judgeWork(since float64) {
	r.t.Helper()
	all := r.history.stints()
	pieces := 0
	for object, stints := range all {
		slices.SortFunc(stints, func(a, b stint) int { return int((a.begun - b.begun) * 1e6) })
		for i := 1; i < len(stints); i++ {
			if stints[i].pod != stints[i-1].pod {
				assert.Less(r.t, stints[i-1].ended, stints[i].begun, "%s: two shards at work", object)
			}
		}
		assert.Greater(r.t, stints[len(stints)-1].ended, since, "%s: no shard works on it", object)
		pieces += len(stints)
	}
	assert.Len(r.t, all, objectsOfARing)
	r.t.Logf("%d pieces of work", pieces)
	r.judgeStints(all)
	r.judge()
}

// allWorked waits until each object has been worked on after a moment.
func (r ring) allWorked(since float64) {
	r.t.Helper()
	r.eventually("all objects are worked on", func() bool {
		all := r.history.stints()
		for _, stints := range all {
			if !slices.ContainsFunc(stints, func(s stint) bool { return s.begun > since }) {
				return false
			}
		}
		return len(all) == objectsOfARing
	})
}

// A rolling update replaces all shards, one after the other or at once.
func TestRollOutOfARing(t *testing.T) {
	cluster.Need(t)
	for _, workload := range []string{"deployment.yaml", "statefulset.yaml"} {
		t.Run(workload, func(t *testing.T) {
			t.Parallel()
			r := deployRing(t, workload)
			old := r.pods()
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]string{"again": "yes"}},
			}}})
			require.NoError(t, err)
			if workload == "deployment.yaml" {
				_, err = cluster.Client.AppsV1().Deployments(r.namespace).Patch(t.Context(), "example-sharding",
					types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			} else {
				_, err = cluster.Client.AppsV1().StatefulSets(r.namespace).Patch(t.Context(), "example-sharding",
					types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			}
			require.NoError(t, err)
			r.eventually("all Pods are new", func() bool {
				pods := r.pods()
				return len(pods) == 3 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
					return p.Labels["again"] != "yes" || !realnode.PodReady(p) ||
						slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == p.UID })
				})
			})
			now := seconds()
			r.allWorked(now)
			r.judgeWork(now)
		})
	}
}

// A canary has worked only on objects that were its own, and works on none soon after it is taken back.
func TestACanaryIsTakenBack(t *testing.T) {
	cluster.Need(t)
	const canary = "checksums-canary-0"
	r := deployRing(t, "deployment.yaml")
	r.apply("sharding/canary.yaml")
	var pod types.UID
	r.eventually("the canary runs", func() bool {
		pods := r.pods()
		i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == canary && realnode.PodReady(p) })
		if i >= 0 {
			pod = pods[i].UID
		}
		return i >= 0
	})
	r.weigh(canary, 150) // a third of the objects
	r.eventually("the canary works", func() bool {
		return slices.ContainsFunc(r.history.runs(pod), func(run []line) bool {
			return slices.ContainsFunc(run, func(l line) bool { return l.Message == "work has ended" })
		})
	})
	r.allWorked(seconds())

	begun := time.Now()
	r.weigh(canary, 0)
	r.eventually("the canary has no objects", func() bool { return r.workers()[canary] == 0 })
	took, back := time.Since(begun), seconds()
	r.allWorked(back)
	spoiled := 0
	for object, stints := range r.history.stints() {
		stints = slices.DeleteFunc(stints, func(s stint) bool { return s.pod != pod })
		if len(stints) > 0 {
			spoiled++
		}
		for _, s := range stints {
			assert.Less(t, s.ended, back, object)
		}
	}
	t.Logf("the canary has worked on %d of %d objects, and had none %s after it was taken back",
		spoiled, objectsOfARing, took.Round(10*time.Millisecond))
	r.judgeWork(back) // each piece of work was on an object of its shard
}

// weigh gives a shard another weight, as kubectl bellwether weigh does.
func (r ring) weigh(shard string, weight int) {
	r.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, shardlease.WeightAnnotation, weight)
	_, err := cluster.Client.CoordinationV1().Leases(r.namespace).Patch(r.t.Context(), shard, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	require.NoError(r.t, err)
}
