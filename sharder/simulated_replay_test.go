package sharder_test

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// TestSimulatedReplays is TestSimulatedFamilies with a user who edits. The user copies annotations
// from one object to another, restores earlier annotations of an object, and removes a record soon
// after the sharder has written it.
func TestSimulatedReplays(t *testing.T) {
	s := sharding()
	s.Quiet += 5 * time.Minute // an object whose marks are removed again and again waits up to so long for them
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostResponses, sim.Refused, sim.Kill,
		sim.Terminate, sim.Outage, sim.Restart, sim.Interference,
	}
	s.Interfere = func(w *sim.World, r *rand.Rand) {
		populate(w, r)
		list, err := objectsOf(w).List(context.Background(), metav1.ListOptions{LabelSelector: "user"})
		if err != nil || len(list.Items) == 0 {
			return
		}
		for range 3 {
			replay(w, r, list.Items)
		}
	}
	s.Rule = func(w *sim.World) sim.Rule {
		rule, begin := oneFamilyOneShard(w), time.Now()
		w.Server.Observe(func(c apisim.Change) {
			birthsOf(w).see(c)
			if time.Since(begin) < s.Duration {
				stripSoon(w, c)
			}
		})
		return rule
	}
	sim.Prove(t, s, schedules(t, 50))
}

// stripSoon removes all marks of the ring from some of the roots that have just been assigned.
// Their shards have not seen the children yet.
func stripSoon(w *sim.World, c apisim.Change) {
	if c.Before == nil || c.After == nil || c.After.GetKind() != "ConfigMap" {
		return
	}
	label := api.ShardLabel(simulatedRing)
	version := c.After.GetResourceVersion()
	if now := c.After.GetLabels()[label]; now == "" || now == c.Before.GetLabels()[label] ||
		version[len(version)-1]%4 != 0 {
		return
	}
	name, wait := c.After.GetName(), time.Duration(version[len(version)-1]%3)*100*time.Millisecond
	time.AfterFunc(wait, func() {
		_, _ = objectsOf(w).Patch(context.Background(), name, types.MergePatchType,
			must(json.Marshal(map[string]any{"metadata": map[string]any{
				"labels": map[string]any{
					label: nil, api.DrainLabel(simulatedRing): nil,
					api.SealLabel(simulatedRing): nil,
				},
				"annotations": map[string]any{recordAnnotation: nil},
			}})), metav1.PatchOptions{})
	})
}

// replay gives an object the annotations of another object, or its own earlier ones. It stores
// annotations of the objects for later calls.
func replay(w *sim.World, r *rand.Rand, all []corev1.ConfigMap) {
	type key struct{ replay types.UID }
	o := &all[r.IntN(len(all))]
	annotations := all[r.IntN(len(all))].Annotations
	if old, ok := w.State.Load(key{o.UID}); ok && r.IntN(3) > 0 {
		annotations = old.(map[string]string)
	}
	for i := range all {
		if r.IntN(3) == 0 {
			w.State.Store(key{all[i].UID}, maps.Clone(all[i].Annotations))
		}
	}
	patch := must(json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}}))
	_, _ = objectsOf(w).Patch(context.Background(), o.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
