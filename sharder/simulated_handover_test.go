package sharder_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// childless has resources without children. A shard gives their objects to the successor itself.
var childless = []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}}

// TestSimulatedHandovers is TestSimulatedWrites for objects without children. Their shards give
// them to each other. The third replica is of the previous version, as a shard and as a sharder.
func TestSimulatedHandovers(t *testing.T) {
	s := sharding()
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostRequests, sim.LostResponses, sim.Refused, sim.Throttled,
		sim.ClockStep,
		sim.Kill, sim.Terminate, sim.Outage, sim.Restart, sim.Compaction, sim.Interference,
	}
	s.Rule = noForeignWrites
	s.Interfere = func(w *sim.World, r *rand.Rand) {
		meddleWith(w, r, func([]corev1.ConfigMap) {}) // there are none
	}
	s.Main = func(ctx context.Context, p *sim.Process) {
		if identity(p.Name) != "c" {
			runReplicaOf(ctx, p, childless)
			return
		}
		runReplicaWith(ctx, p, replicaConfig{shard: configMaps, sharder: childless},
			func(next http.RoundTripper) http.RoundTripper {
				return hands(func(q *http.Request) (*http.Response, error) {
					q, err := withoutHeir(q)
					if err != nil {
						return nil, err
					}
					return next.RoundTrip(q)
				})
			})
	}
	sim.Prove(t, s, schedules(t, 50))
}

// withoutHeir returns a request as a sharder of the previous version sends it: a patch that drains
// an object only sets the label. A shard of the previous version frees a drained object, and gives
// it to no successor. A shard with children in its config does the same.
func withoutHeir(q *http.Request) (*http.Request, error) {
	if q.Method != http.MethodPatch {
		return q, nil
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	var patch map[string]map[string]any
	_ = json.Unmarshal(body, &patch) // fails if it is no patch of an object
	labels, _ := patch["metadata"]["labels"].(map[string]any)
	if heir, _ := labels[api.DrainLabel(simulatedRing)].(string); heir != "" &&
		heir == labels[api.SealLabel(simulatedRing)] {
		labels[api.DrainLabel(simulatedRing)] = "true"
		delete(labels, api.SealLabel(simulatedRing))
		delete(patch["metadata"], "annotations")
		body = must(json.Marshal(patch))
	}
	q = q.Clone(q.Context())
	q.Body, q.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	q.GetBody = nil
	return q, nil
}
