package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// LeaderForLife registers the metrics of a candidate, for leader.WithHooks.
func LeaderForLife(registry prometheus.Registerer) (leader.Hooks, error) {
	f := &factory{registry: registry, subsystem: "leaderforlife"}
	leading := f.gauge("leading", "1 when this Pod is the leader. It stays 1.")
	waiting := f.gauge("waiting_for", "How many Pods this candidate waits for.")
	return leader.Hooks{
		OnWaiting: func(all []leader.Waiting) { waiting.Set(float64(len(all))) },
		OnLeading: func(types.UID) {
			leading.Set(1)
			waiting.Set(0)
		},
		OnFailing: failing(f, "become the leader"),
	}, f.err()
}
